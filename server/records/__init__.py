"""The files of a run: its folder, checkpoints, history, summary and pictures.

Others use ``run_folder`` (RunFolder: the folder of a run), ``checkpoint``, ``history`` (history.jsonl),
``finished_run`` (load_run, export), ``summary`` (the end in words), ``progress``, ``plots``, ``files`` (replace_file)
and ``lock`` (FolderLock).
"""
