"""The resident client of a gRPC server; ``command`` runs it."""
