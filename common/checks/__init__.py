"""Checks of an objective before a run.

Others use ``report`` (check: all of them, as a report), ``check`` (check_code: what methods do, without the radius),
``radius`` (flat_advice, noise_advice), ``readings`` (noise_of, batch_spread) and ``finding`` (Case, Finding).
"""
