"""gRPC's C core prints nothing of its own, even where Flower was imported first and asked it for errors."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest


@pytest.mark.parametrize("package", ["zofedht.server.grpc", "zofedht.client.join"])
@pytest.mark.parametrize(("asked", "found"), [(None, "NONE"), ("error", "NONE"), ("debug", "debug")])
def test_only_a_user_makes_grpc_talk(package: str, asked: str | None, found: str) -> None:
    environment = {name: value for name, value in os.environ.items() if name != "GRPC_VERBOSITY"}
    environment |= {} if asked is None else {"GRPC_VERBOSITY": asked}
    script = f"import os, zofedht, {package}; print(os.environ['GRPC_VERBOSITY'])"
    done = subprocess.run([sys.executable, "-c", script], env=environment, capture_output=True, text=True, check=True)
    assert done.stdout.strip() == found
