"""The server of resident clients: transport, admission, roster and certificates; ``serve`` runs it."""
