"""Two raylets on loopback, in a process of their own, of which one can be lost."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress

from tests.waiting import PATIENCE

__all__ = ["two_raylets"]

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
    """Yield the address of a cluster of one core each, and what kills the second raylet."""
    pipe = subprocess.PIPE
    with (
        tempfile.TemporaryDirectory(prefix="ray") as folder,  # so that no other Ray reads of this cluster after its end
        tempfile.TemporaryFile("w+") as errors,
        subprocess.Popen(
            [sys.executable, "-c", _CLUSTER, f"{PATIENCE}"], stdin=pipe, stdout=pipe, stderr=errors, text=True,
            env=os.environ | {"RAY_TMPDIR": folder},
        ) as process,
    ):  # fmt: skip
        assert process.stdin is not None
        assert process.stdout is not None
        stdin = process.stdin

        def tell(word: str) -> None:
            with suppress(BrokenPipeError):  # a cluster that did not begin has ended
                stdin.write(f"{word}\n")
                stdin.flush()

        try:
            address = process.stdout.readline().strip()
            errors.seek(0)
            assert address, f"the cluster did not begin: {errors.read()}"
            yield address, lambda: tell("lose")
        finally:
            tell("end")
            process.wait(PATIENCE)
