"""What server and client must agree on, in NumPy and SciPy: no Flower, no network, no client and no server.

Each folder is one idea: ``keys`` and ``config`` (of a run), ``random`` (numbers by their address), ``directions`` (the
law of v, the basis Q, the slopes), ``objective`` (what users write), ``models`` (built-in objectives), ``data``,
``files`` (of data), ``checks`` (of an objective before a run), ``wire`` (messages), ``privacy`` (what hides a client's
numbers) and ``machine`` (what it runs on). Beside them lie the names that keys choose among (``choices``), the table of
algorithms (``algorithms``), the errors of users and the causes of failures (``errors``), and what joins several
folders: ``replay`` draws the directions of a slot again and turns its slopes into its move, and ``shards`` makes the
objective of each client. ``terminal`` and ``tls`` are for both commands.
"""
