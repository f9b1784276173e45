"""The client: it takes local steps along drawn directions on its own rows (Algorithm 1, lines 10-18).

``plan`` is what they go by, ``falls`` measures them, ``steps`` takes them and ``kernels`` compiles them; ``privacy``
keeps a client's numbers its own; ``flower`` is
the client as Flower sees it, ``join`` the resident client of a gRPC server. The command is
``python -m zofedht.client``.
"""
