"""Both commands on a terminal: ``command_line`` (options, exit codes), ``completion``, ``logs`` and ``whole_lines``."""
