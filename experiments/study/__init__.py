"""The grid of the paper's section IV: its cells, their runs and their results.

Others use ``command`` (run_study), ``cells`` and ``presets`` (which runs), ``pool``, ``cluster`` and ``cell_run`` (how
they run), ``progress``, ``results`` (read_study), ``cell_lines`` (finished cells as lines) and ``published`` (the
authors' numbers).
"""
