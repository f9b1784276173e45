"""The run config: every key with its rule, checked in one place.

Others use ``run_config`` (RunConfig, dashed, FREE_KEYS), ``step_spec`` (StepSpec: how steps are taken), ``texts``
(assignments and TOML), ``own_objective`` (which algorithm few parameters get), ``reference`` (the keys for people and
editors) and ``checking`` (plain: NumPy's scalars and paths as Python's own). Inside, ``problem_keys``, ``step_keys``,
``round_keys``, ``message_keys`` and ``run_keys`` declare the keys, ``derived_keys`` says what follows from several of
them, and the modules of contradictions what does not go together.
"""
