"""The local steps of one slot, and what a client keeps between rounds.

Others use ``worker`` (Worker: a Broadcast to its Update, BasisStore), ``replica`` (Replica: x followed by slopes),
``local_steps`` (the loop) and ``warm_up`` (compiling before there is a clock).
``private_steps`` is the loop under differential privacy, ``surrogate_steps`` that along a surrogate of F, and
``point_values`` is F at the points of a search. ``step_slopes`` are the slopes of one step, ``slot_result``
(SlotResult) is where those of a slot led, and ``memory`` (check_room) refuses slots that do not fit.
"""
