"""What the machine that runs this gives: threads, folders, memory, and the versions of what is installed.

Others use ``blas`` (one_thread), ``cache`` (data_folder), ``files`` (replace_file: no file is ever half
written), ``memory`` (whether sizes fit before they are allocated) and ``versions``.
"""
