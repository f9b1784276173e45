"""The server of resident clients, with mutual TLS.

Others use ``serve`` (serve, ServeOptions), ``transport`` (the gRPC service, which demands a client's certificate and
reads its name), ``listener`` (its port), ``roster`` (who is there), ``resident_proxy`` (a joined client),
``descriptors`` (how many connections there may be), ``event_loop`` (the thread of all clients), ``conversation``
(messages to a client) and ``health``. Who may join is said by ``admission``.
"""

import os

# Raw lines of gRPC's C core say on the server's terminal what the sentences of this program say better.
if os.environ.get("GRPC_VERBOSITY", "error") == "error":  # what Flower sets where nobody has
    os.environ["GRPC_VERBOSITY"] = "NONE"
