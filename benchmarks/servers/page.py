"""How quickly the page of a long run is there, and what watching costs a run.

    python -m benchmarks.servers.page [--rounds 5000] [--clients 200] [--pairs 9]

The first lines are of a folder with so many rounds, each with slots of all clients, as ``zofedht-server watch`` finds
it: seconds in which all is read, bytes of the first event, and seconds until a browser has painted the curve and until
its table counts all rounds; a second request finds the files read. Without Chromium the latter are left out.

The last lines are ratios of a round with a watched page to a round without a page: CPU seconds of the process, with
its page, and seconds on the clock. Runs with and without take turns; median and spread are those of the pairs.
"""

from __future__ import annotations

import argparse
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from contextlib import nullcontext
from pathlib import Path

import numpy as np

from benchmarks.servers.browser import Tab, browser, chromium
from zofedht.common.config.run_config import RunConfig
from zofedht.server.core.round_record import ClientWork, RoundRecord
from zofedht.server.core.state import ServerState
from zofedht.server.inprocess import run_in_process
from zofedht.server.page.access import PageOptions
from zofedht.server.page.serving import show_page
from zofedht.server.page.updates import Updates
from zofedht.server.page.view import RunView
from zofedht.server.records.history import HistoryWriter
from zofedht.server.records.run_folder import RunFolder

_PAGE = PageOptions("127.0.0.1:0")
_READER = """
import http.client, sys
stream = http.client.HTTPConnection("127.0.0.1", int(sys.argv[1]))
stream.request("GET", "/events")
answer = stream.getresponse()
while line := answer.readline():
    if line.startswith(b"data"):
        print("event", flush=True)
"""


def main(argv: Sequence[str] | None = None) -> int:
    """Measure and print two tables."""
    parser = argparse.ArgumentParser(prog=f"python -m {__spec__.name}", description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=5000, help="rounds of the long run")
    parser.add_argument("--clients", type=int, default=200, help="its clients, all in each round")
    parser.add_argument("--pairs", type=int, default=9, help="pairs of runs with and without a page")
    parser.add_argument("--run-rounds", type=int, default=300, help="rounds of each of these runs")
    args = parser.parse_args(argv)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder)
        _write(path / "long", args.rounds, args.clients)
        began = time.perf_counter()
        view = RunView(path / "long")
        view.look()
        read = time.perf_counter() - began
        size = len(Updates(view).next())
        print(f"{args.rounds} rounds of {args.clients} clients: read in {read:.2f} s, first event {size / 1e3:.0f} kB")
        if chromium():
            cold, warm = _paints(path, args.rounds)
            for name, (curve, table) in {"first": cold, "second": warm}.items():
                print(f"{name} request: curve painted after {curve:.2f} s, table complete after {table:.2f} s")
        else:
            print("no Chromium here: no time of a paint")
        pairs = [[_seconds(path, args.run_rounds, watched) for watched in (True, False)] for _ in range(args.pairs)]
    for which, name in enumerate(("CPU seconds", "seconds")):
        ratios = [with_page[which] / without[which] for with_page, without in pairs]
        alone = 1e3 * statistics.median(without[which] for _, without in pairs)
        text = f"{statistics.median(ratios):.3f} ({min(ratios):.3f} to {max(ratios):.3f}, {len(ratios)} pairs)"
        print(f"{name} of a round with a watched page over one without ({alone:.2f} ms): {text}")
    return 0


def _write(path: Path, rounds: int, clients: int) -> None:
    folder = RunFolder(path)
    with folder:
        folder.begin(RunConfig.from_mapping({"rounds": rounds, "num-clients": clients}), "grpc")
        history = HistoryWriter(folder.history_file)
        random = np.random.default_rng(0)
        for round_ in range(rounds):
            record = _record(round_, clients, float(random.normal()))
            state = ServerState(round_ + 1, np.zeros(1))
            folder.clients(state, record)
            history(state, record)


def _record(round_: int, clients: int, noise: float) -> RoundRecord:
    work = ClientWork(1, 0.123456, 1234, 5678, 1.1 + 0.1 * noise)
    done = round_ + 1
    return RoundRecord(
        round_, 6400 * done, (1 + 0.02 * noise) / done**0.2, "full", 0.9, 3.0 / done, round_ // 5, 5, clients, 1,
        1234 * clients * done, 5678 * clients * done, 0.5 * done, [],
        clients={f"client-{index}": work for index in range(clients)},
    )  # fmt: skip


def _paints(path: Path, rounds: int) -> list[tuple[float, float]]:
    with show_page(path / "long", _PAGE, lambda text: None) as port, browser(path) as tab:
        tab.open()
        return [_paint(f"http://127.0.0.1:{port}/", tab, rounds) for _ in range(2)]


def _paint(url: str, tab: Tab, rounds: int) -> tuple[float, float]:
    began = time.perf_counter()
    tab.open(url)
    tab.wait("document.querySelector('#loss-chart .curve')")
    tab.value("new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))")
    curve = time.perf_counter() - began
    slots = "document.querySelector('#clients tbody tr').cells[4].textContent"
    tab.wait(f"{slots} === '{rounds}'", 300.0)
    return curve, time.perf_counter() - began


def _seconds(path: Path, rounds: int, watched: bool) -> tuple[float, float]:
    """Return the CPU seconds and the seconds of a round."""
    config = RunConfig.from_mapping({"rounds": rounds, "step-size": 1.0, "num-clients": 10, "evaluate-every": 0})
    marks: list[tuple[float, float]] = []
    with tempfile.TemporaryDirectory(dir=path) as out, RunFolder(Path(out)) as folder:
        folder.begin(config, "in-process")
        with show_page(folder.path, _PAGE, lambda text: None) if watched else nullcontext(0) as port:
            reader = _watching(port) if watched else None
            mark = lambda *_: marks.append((time.process_time(), time.perf_counter()))  # noqa: E731
            run_in_process(config, folder=folder, observers=[mark])
        if reader is not None:
            reader.communicate()
    return tuple((last - first) / (len(marks) - 1) for first, last in zip(marks[0], marks[-1], strict=True))  # type: ignore[return-value]


def _watching(port: int) -> subprocess.Popen[bytes]:
    """Return a process that reads the events, once it has read the first."""
    reader = subprocess.Popen([sys.executable, "-c", _READER, str(port)], stdout=subprocess.PIPE)
    assert reader.stdout is not None
    reader.stdout.readline()
    return reader


if __name__ == "__main__":
    sys.exit(main())
