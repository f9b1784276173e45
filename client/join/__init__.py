"""The resident client of a gRPC server: it joins, keeps its objective, and comes back when the connection is lost.

Others use ``command`` (join: what the command does) and ``ledger`` (ledger_text: what a device has sent and got).
``options`` is what the command line brings, ``resident`` answers the server, ``own_objective`` is what it has brought,
``own_file`` has the rows, ``bounds`` and ``lifetime`` are the owner's limits on what is answered. ``connection`` is
where the server is, ``transport`` stays joined to it, and ``answering`` turns each question into an answer.
"""

import os

# Raw lines of gRPC's C core say on the client's terminal what the sentences of this program say better.
if os.environ.get("GRPC_VERBOSITY", "error") == "error":  # what Flower sets where nobody has
    os.environ["GRPC_VERBOSITY"] = "NONE"
