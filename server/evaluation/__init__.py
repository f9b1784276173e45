"""Full evaluations of x, and where a run starts: what is asked of all clients, outside of the rounds.

Others use ``full`` (evaluate_clients, central_evaluator), ``figures`` (Evaluation: metrics, and who is missing) and
``start`` (Start, and whether all clients agree on it).
"""
