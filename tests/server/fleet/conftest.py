"""Sites for fleets: those of the gRPC tests."""

from __future__ import annotations

from tests.server.grpc.conftest import certificates, secure_site

__all__ = ["certificates", "secure_site"]
