"""The server of resident clients, with mutual TLS.

Others use ``serve`` (serve, ServeOptions), ``admission`` (who may join), ``roster`` (who is there), ``conversation``
(messages to a client), ``transport`` (the gRPC service), ``health`` and ``certificates`` (make_certificates).
"""
