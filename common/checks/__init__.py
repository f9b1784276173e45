"""Checks of an objective before a run.

Others use ``report`` (check: all of them, as a report), ``radius`` (flat_advice, noise_advice), ``readings`` (noise_of)
and ``finding`` (Case, Finding).
"""
