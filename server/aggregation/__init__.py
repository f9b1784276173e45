"""From the replies of a round to what x moves along: Algorithm 1, line 20, or a rule that bears false moves.

Others use ``screening`` (screen: a reply is usable or a Failure), ``combine`` (combine: a round by the run's rule;
outliers are noted there and stay in), ``masked_sum`` (MaskedSum: the server of secure aggregation) and ``replays``
(slopes to moves, and whether their directions are the server's). ``means`` holds the mean. False replies are left out,
or bounded, in ``robust_rules`` (clipping, trimmed mean, median, krum) and, for values of F, in ``robust_values``
(robust_table, spreads_of).
"""
