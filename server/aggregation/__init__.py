"""From the replies of a round to what x moves along: Algorithm 1, line 20, or a rule that bears false moves.

Others use ``screening`` (screen: a reply is usable or a Failure), ``combine`` (combine: the contributions to
the mean, and outliers), ``masked_sum`` (MaskedSum: the server of secure aggregation) and ``replays`` (slopes to moves,
and whether their directions are the server's). ``means`` holds the mean and the robust rules,
``values`` (robust_table, spreads_of) those of values of F.
"""
