"""Bytes per client and round: what is sent, and what HTTP/2 and TLS add."""
