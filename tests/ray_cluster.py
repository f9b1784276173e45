"""Two raylets on loopback, in a process of their own, of which one can be lost."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import IO

from tests.waiting import PATIENCE, nothing_left

__all__ = ["two_raylets"]

_TRIES = 10

_CLUSTER = """
import sys
from ray.cluster_utils import Cluster

head = {"num_cpus": 1, "include_dashboard": False, "wait": False}  # Ray waits for 30 s: too short on a busy machine
cluster = Cluster(initialize_head=True, head_node_args=head)
node = cluster.add_node(num_cpus=1, wait=False)
cluster.wait_for_nodes(float(sys.argv[1]))
print(cluster.address, flush=True)
for line in sys.stdin:
    if line.strip() != "lose":
        break
    cluster.remove_node(node, allow_graceful=False)
cluster.shutdown()
"""


@contextmanager
def two_raylets() -> Iterator[tuple[str, Callable[[], None]]]:
    """Yield the address of a cluster of one core each, and what kills the second raylet.

    A raylet that does not register within Ray's 30 seconds ends the process: on a busy machine it is begun again.
    """
    with (
        nothing_left() as mark,
        tempfile.TemporaryDirectory(prefix="ray") as folder,  # so that no other Ray reads of this cluster after its end
        tempfile.TemporaryFile("w+") as errors,
    ):
        for _ in range(_TRIES):
            process = _begin(folder, mark, errors)
            assert process.stdin is not None
            assert process.stdout is not None
            stdin = process.stdin
            if address := process.stdout.readline().strip():
                break
            process.communicate(timeout=PATIENCE)

        def tell(word: str) -> None:
            stdin.write(f"{word}\n")
            stdin.flush()

        errors.seek(0)
        assert address, f"the cluster did not begin: {errors.read()}"
        try:
            yield address, lambda: tell("lose")
        finally:
            with suppress(BrokenPipeError):
                tell("end")
            process.communicate(timeout=PATIENCE)


def _begin(folder: str, mark: dict[str, str], errors: IO[str]) -> subprocess.Popen[str]:
    pipe = subprocess.PIPE
    return subprocess.Popen(
        [sys.executable, "-c", _CLUSTER, f"{PATIENCE}"], stdin=pipe, stdout=pipe, stderr=errors, text=True,
        env=os.environ | mark | {"RAY_TMPDIR": folder},
    )  # fmt: skip
