"""Many resident clients in one process, one thread each: python -m benchmarks.many_clients PORT N INDEX..."""

from __future__ import annotations

import sys
import threading
import uuid

from zofedht.client.join.resident import Holdings, ResidentClient
from zofedht.client.join.transport import Connection, stay_joined


def main() -> None:
    """Join as the given partitions and stay until the run is over."""
    port, count, *indices = sys.argv[1:]

    def one(index: str) -> None:
        holdings = Holdings(f"client-{index}", uuid.uuid4().hex, int(index), int(count))
        client = ResidentClient(holdings, lambda text: None).to_client()
        connection = Connection(f"127.0.0.1:{port}", None)
        stay_joined(connection, client, report=lambda text: None, connected=lambda up: None)

    threads = [threading.Thread(target=one, args=(index,)) for index in indices]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


if __name__ == "__main__":
    main()
