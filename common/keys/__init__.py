"""Every key of the run config, declared: its default, meaning, unit, symbol and rule.

Others use ``keys`` (Keys, dashed, kind_of), which joins ``problem_keys`` (data and objective), ``step_keys`` (algorithm
and local steps), ``round_keys`` (clients and rounds), ``message_keys`` (messages and privacy) and ``run_keys``
(failures and output). ``declaration`` says how a key is declared.
"""
