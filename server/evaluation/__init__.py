"""Full evaluations of x, and where a run starts: what is asked of all clients, outside of the rounds.

Others use ``evaluate`` (evaluate_clients, central_evaluator), ``full_evaluation`` (FullEvaluation: the metrics, and the
clients that are missing), ``start`` (Start, and whether all clients agree on it), ``compare`` (whether one x is better
than another, from paired answers), ``incumbent`` (better_of: keeps the best x so far) and ``verdict`` (judge: which x a
run returns, and whether it is better than the start).
"""
