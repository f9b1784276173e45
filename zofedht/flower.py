"""For apps of Flower: the strategy ``ZOFedHT``, and ``train`` and ``evaluate`` for their ClientApps.

>>> from zofedht.flower import ZOFedHT
>>> ZOFedHT(step_size=0.1, seed=1).settings["step-size"]
0.1
"""

from zofedht.client.flower.message_app import evaluate, train
from zofedht.server.flower.message_strategy import ZOFedHT

__all__ = ["ZOFedHT", "evaluate", "train"]
