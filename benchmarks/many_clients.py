"""Many resident clients in one process, one thread each: python -m benchmarks.many_clients PORT FILE N INDEX...

FILE is the data set that the server deals: every client opens its own copy.
"""

from __future__ import annotations

import sys
import uuid
from concurrent.futures import ThreadPoolExecutor

from zofedht.client.join.resident import JoinOptions, ResidentClient
from zofedht.client.join.transport import Connection, stay_joined


def main() -> None:
    """Join as the given partitions and stay until the run is over. Raises what ended a client otherwise."""
    port, file, count, *indices = sys.argv[1:]

    def one(index: str) -> None:
        options = JoinOptions(f"client-{index}", uuid.uuid4().hex, int(index), int(count), dataset=file)
        client = ResidentClient(options, lambda text: None).to_client()
        connection = Connection(f"127.0.0.1:{port}", None)
        stay_joined(connection, client, report=lambda text: None, connected=lambda up: None)

    with ThreadPoolExecutor(len(indices)) as pool:
        list(pool.map(one, indices))


if __name__ == "__main__":
    main()
