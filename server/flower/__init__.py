"""The server as Flower sees it: translate, delegate, translate back.

Others use ``round_loop`` (FlowerRounds: the loop of rounds over nodes), ``strategy`` (ZofedhtStrategy) and
``simulation`` (run_simulation). ``app`` is the ServerApp of ``flwr run``.
"""
