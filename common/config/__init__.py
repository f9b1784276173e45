"""The run config: every key with its rule, checked in one place.

Others use ``run_config`` (RunConfig, dashed, FREE_KEYS), ``step_spec`` (StepSpec: how steps are taken), ``texts``
(assignments and TOML), ``own_objective`` (which algorithm few parameters get) and ``reference`` (the keys for people
and editors). Inside, keys holds the keys, contradictions what is wrong with several of them, and checking reads a
mapping; the front door uses its ``checking`` (plain: NumPy's scalars and paths as Python's own).
"""
