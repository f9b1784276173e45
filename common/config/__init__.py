"""The run config: its keys, which ``keys`` beside it declares, checked in one place.

Others use ``run_config`` (RunConfig, dashed, FREE_KEYS), ``step_spec`` (StepSpec: how steps are taken), ``texts``
(assignments and TOML), ``own_objective`` (which algorithm few parameters get), ``reference`` (the keys for people and
editors) and ``checking`` (plain: NumPy's scalars and paths as Python's own). Inside, ``derived_keys`` says what follows
from several of them, and ``contradictions`` what does not go together (of steps, of privacy and in place: in modules of
these names).
"""
