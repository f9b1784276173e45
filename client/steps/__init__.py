"""The local steps of one slot, and what a client keeps between rounds.

Others use ``worker`` (Worker: a Broadcast to its Update, BasisStore), ``replica`` (Replica: x followed by slopes),
``local_steps`` (the loop) and ``warm_up`` (compiling before there is a clock).
"""
