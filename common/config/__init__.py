"""The run config: every key with its rule, checked in one place.

Others use ``run_config`` (RunConfig, dashed, FREE_KEYS) and ``texts`` (assignments, TOML, the table of keys). Inside,
keys holds the keys, rules and contradictions what is wrong with values, and checking reads a mapping.
"""
