"""The files of a run: its folder, checkpoints, history, summary and pictures.

Others use ``run_folder`` (RunFolder: begun, reopened to resume, finished), ``checkpoint``, ``history`` (the file; a
line's fields are core's record), ``lost`` (the slots and steps that a run lost, and why),
``finished_run`` (load_run, export), ``summary`` (the end in words), ``progress``, ``plots``, ``files`` (replace_file)
and ``lock`` (FolderLock).
"""
