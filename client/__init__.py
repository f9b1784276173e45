"""The client: it takes local steps along drawn directions on its own rows (Algorithm 1, lines 10-18).

``plan`` is what they go by, ``falls`` measures them, ``steps`` takes them and ``kernels`` compiles them; ``tensors``
takes them in place. ``not_done`` answers a slot that fails, and ``privacy`` keeps a client's numbers its own.
``flower`` is the client as Flower sees it, ``join`` the resident client of a gRPC server, and ``work`` does the task
of an ``Optimizer``. The command is ``python -m zofedht.client``.
"""
