"""What a browser gets: all at first, then what is new, and after a break what it missed."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from tests.server.page.runs import begin, lost, record, write
from zofedht.server.page.updates import Updates
from zofedht.server.page.view import RunView
from zofedht.server.records.run_folder import RunFolder


def told(updates: Updates) -> tuple[str, dict[str, Any]]:
    """Return the id and the content of the next event."""
    id_, _, data = updates.next().partition("\ndata: ")
    return id_.removeprefix("id: "), json.loads(data)


def rounds(message: dict[str, Any]) -> list[int]:
    return [point[0] for point in message.get("points", [])]


def running(path: Path, count: int = 5) -> tuple[RunFolder, RunView]:
    folder, view = begin(path), RunView(path)
    write(folder, *(record(round_) for round_ in range(count)))
    view.look()
    return folder, view


def test_the_first_event_has_everything(tmp_path: Path):
    _, view = running(tmp_path)
    id_, message = told(Updates(view))
    assert rounds(message) == [0, 1, 2, 3, 4]
    assert {"status", "config", "files", "clients"} <= set(message)
    assert message["reset"]
    assert id_.startswith("4.")


def test_later_events_have_what_is_new(tmp_path: Path):
    folder, view = running(tmp_path)
    updates = Updates(view)
    told(updates)
    assert updates.next() == ""
    write(folder, record(5, failures=[lost(5, "b")], clients={}))
    view.look()
    _, message = told(updates)
    assert rounds(message) == [5]
    assert [row["name"] for row in message["clients"]] == ["b"]
    assert message["failures"] == [lost(5, "b")]
    assert not {"config", "files", "reset"} & set(message)


def test_a_browser_that_returns_gets_what_it_missed(tmp_path: Path):
    folder, view = running(tmp_path)
    id_, _ = told(Updates(view))
    write(folder, record(5), record(6))
    later = RunView(folder.path)  # of a server that was started again
    later.look()
    _, message = told(Updates(later, id_))
    assert rounds(message) == [5, 6]
    assert not message["reset"]
    assert len(message["clients"]) == 2


def test_rounds_that_ran_again_are_sent_again(tmp_path: Path):
    folder, view = running(tmp_path)
    updates = Updates(view)
    id_, _ = told(updates)
    folder.history_file.write_text("")
    write(folder, *(record(round_, seconds=9.0 + round_) for round_ in range(6)))
    view.look()
    for again in (updates, Updates(view, id_)):
        _, message = told(again)
        assert message["reset"]
        assert rounds(message) == [0, 1, 2, 3, 4, 5]


def test_false_ids_get_everything(tmp_path: Path):
    _, view = running(tmp_path)
    for id_ in ("9.1", "x", "4", "4.x", "-1.5", "4.1\n"):
        _, message = told(Updates(view, id_))
        assert message["reset"], id_
        assert len(rounds(message)) == 5


def test_many_rounds_and_clients_are_thinned(tmp_path: Path):
    folder, view = begin(tmp_path), RunView(tmp_path)
    work = record(0).clients["a"]
    write(folder, record(0, clients={f"client-{i}": work for i in range(1200)}))
    write(folder, *(record(round_) for round_ in range(1, 2000)))
    view.look()
    _, message = told(Updates(view))
    assert len(message["points"]) <= 800
    assert len(message["clients"]) == 1000
    assert message["hidden"] == 202
