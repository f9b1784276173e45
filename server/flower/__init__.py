"""The server as Flower sees it: translate, delegate, translate back.

Others use ``round_loop`` (FlowerRounds: the loop of rounds over nodes), ``strategy`` (ZofedhtStrategy), ``proxies``
(clients that need no thread while they work), ``simulation`` (run_simulation) and ``ray_cluster`` (join_cluster).
``app`` is the ServerApp of ``flwr run``. ``message_strategy`` (ZOFedHT) is the strategy of Flower's Message API for
other people's apps; inside, answers reads what clients say, presence waits for somebody to ask, grid_nodes makes the
nodes of its Grid clients and grid_rounds takes the rounds over them.
"""

import os

# Ray announces a coming change of a GPU setting with a FutureWarning unless told that we know; it looks as it starts.
os.environ.setdefault("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "0")
