"""Two raylets on loopback, in a process of their own, of which one can be lost."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager

__all__ = ["two_raylets"]

_CLUSTER = """
import sys
from ray.cluster_utils import Cluster

cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": 1, "include_dashboard": False})
node = cluster.add_node(num_cpus=1)
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
        subprocess.Popen(
            [sys.executable, "-c", _CLUSTER], stdin=pipe, stdout=pipe, stderr=subprocess.DEVNULL, text=True,
            env=os.environ | {"RAY_TMPDIR": folder},
        ) as process,
    ):  # fmt: skip
        assert process.stdin is not None
        assert process.stdout is not None
        stdin = process.stdin

        def tell(word: str) -> None:
            stdin.write(f"{word}\n")
            stdin.flush()

        try:
            yield process.stdout.readline().strip(), lambda: tell("lose")
        finally:
            tell("end")
            process.wait(300)
