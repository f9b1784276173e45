"""What server and client must agree on, in NumPy and SciPy: no Flower, no network, no client and no server.

Each folder is one idea: ``config``, ``random``, ``directions``, ``objective``, ``models``, ``data``, ``checks`` and
``wire``. Beside them lie the names that keys choose among (``choices``), the table of algorithms (``algorithms``), the
errors of users (``errors``), and what joins several folders: ``replay`` draws the directions of a slot again and
``shards`` makes the objective of each client. ``tls`` and ``command_line`` are for both commands.
"""
