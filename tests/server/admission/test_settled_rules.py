"""What no client can decide alone is settled for all, or refused with the key to set."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.server.grpc.processes import SMALL, Site
from tests.server.grpc.test_equality import all_end_well, in_process
from zofedht.common.config.run_config import RunConfig
from zofedht.common.data.standard import columns_text, sums_of
from zofedht.common.errors import DataError
from zofedht.common.files.columns import listed
from zofedht.common.replay import draw_digest
from zofedht.common.shards import own_objective, own_rows
from zofedht.common.wire.clients import OWN_ROWS, PROTOCOL, Hello
from zofedht.common.wire.codec import decode, encode
from zofedht.server.admission.refusal import Expected, refusal
from zofedht.server.admission.settled_rules import settle_rules

CONFIG = RunConfig(dataset="clients", num_clients=2, clients_per_round=2)
HELLO = Hello("a", "f0", "data", OWN_ROWS, 0, 20, 3, PROTOCOL, "0.1.0", draw_digest())


def _clients(*changes: dict[str, Any]) -> list[Hello]:
    return [replace(HELLO, name="abcdef"[place], **each) for place, each in enumerate(changes)]


@pytest.mark.parametrize(
    ("labels", "positive"),
    [
        (["1", "2"], "2"),
        (["1", "1,2"], "2"),
        (["-1", "1"], "1"),
        (["0", "0,1"], "1"),
        (["3,4", "5,6"], "5,6,7,8,9"),
        (["40", "7"], "40"),
    ],
)
def test_labels_of_all_clients_settle_the_positive_ones(labels: list[str], positive: str):
    found, notes = settle_rules(CONFIG, _clients(*({"labels": text} for text in labels)))
    assert found.positive_labels == positive
    assert notes
    assert notes[0].startswith("labels ")


@pytest.mark.parametrize("labels", [["1", "1"], ["1", "2,40", "3"], ["-1,1", "0,1"], ["1,2,3", "4"], ["0", "many"]])
def test_labels_that_settle_nothing_are_refused(labels: list[str]):
    with pytest.raises(DataError, match="positive-labels"):
        settle_rules(CONFIG, _clients(*({"labels": text} for text in labels)))


@pytest.mark.parametrize(("positive", "empty"), [("9", "positive"), ("1,2", "negative")])
def test_a_class_empty_over_all_clients_is_told(positive: str, empty: str):
    config, notes = settle_rules(CONFIG.replace(positive_labels=positive), _clients({"labels": "1"}, {"labels": "2"}))
    assert config.positive_labels == positive
    assert any(f"no client has a {empty} row" in note for note in notes)


@pytest.mark.parametrize(
    ("extents", "first", "columns"), [([(0, 2), (1, 3)], "from-0", 4), ([(2, 2), (1, 3)], "from-1", 3)]
)
def test_one_index_zero_counts_for_all(extents: list[tuple[int, int]], first: str, columns: int):
    clients = _clients(*({"labels": "0,1", "least_index": low, "most_index": high} for low, high in extents))
    config, _ = settle_rules(CONFIG, clients)
    assert (config.svmlight_indices, config.features) == (first, str(columns))


def test_columns_follow_the_first_client_by_name():
    clients = _clients({"names": "heat\nflow", "labels": "0,1"}, {"names": "flow\nheat", "labels": "0"})
    config, notes = settle_rules(CONFIG, clients)
    assert config.features == "heat,flow"
    assert any(note.startswith("b: columns in another order than a") for note in notes)


def test_columns_without_names_are_told():
    _, notes = settle_rules(CONFIG, _clients({"names": "heat\nflow", "labels": "0,1"}, {"labels": "0"}))
    assert any(note.startswith("b: columns without names") for note in notes)


def test_label_columns_of_other_names_are_told():
    """Each file's last column may be something else; who names it on each client is told all the same."""
    one, other = {"names": "heat\nflow", "labels": "0,1", "label": "outcome"}, {"label": "Result", "labels": "0"}
    _, notes = settle_rules(CONFIG, _clients(one, other, one | {"label": " Outcome"}))
    assert [note for note in notes if "label:" in note] == [
        "warning: columns of other names are the label: a takes 'outcome', b takes 'Result'; set --label-column where"
        " one is not"
    ]
    assert not any("label:" in note for note in settle_rules(CONFIG, _clients(one, one)).notes)


@pytest.mark.parametrize("names", [["a,b", 'say "x"', "plain"], ["ä", "b c"]])
def test_listed_names_survive_the_config(names: list[str]):
    clients = _clients({"names": "\n".join(names), "labels": "0,1"})
    assert settle_rules(CONFIG, clients).config.features == listed(names)


EXPECTED = Expected(3, 0, clients_hold_data=True, black_box=False, columns="heat\nflow", columns_of="a")


@pytest.mark.parametrize(
    ("names", "sentence"),
    [
        ("heat\nflow", None),
        ("flow\nheat", None),
        ("", None),
        ("heat\nwind", "this client has a column 'wind' and 'a' has none of that name"),
        ("heat", "'a' has a column 'flow' and this client has none of that name"),
        ("heat\nheat", "this client has two columns 'heat'"),
        ("sha256 00", "this client has other columns than 'a'"),
    ],
)
def test_columns_are_compared_at_the_door(names: str, sentence: str | None):
    reason = refusal(replace(HELLO, names=names), EXPECTED)
    assert (reason is None) == (sentence is None)
    assert sentence is None or sentence in str(reason and reason.reason)


def test_a_label_that_came_after_the_rule_is_refused():
    expected = replace(EXPECTED, labels=frozenset({1, 2}))
    assert refusal(replace(HELLO, labels="1,2"), expected) is None
    assert "this client has the label 3" in str(refusal(replace(HELLO, labels="1,3"), expected))


def test_an_index_beyond_what_the_server_takes_is_refused():
    expected = replace(EXPECTED, dimension=0, most_dimension=1000)
    assert refusal(replace(HELLO, dimension=0, most_index=1000), expected) is None
    assert "--max-message-mb" in str(refusal(replace(HELLO, dimension=0, most_index=2_000_000_000), expected))


@pytest.mark.parametrize("labels", ["1;2", "1,", "x", "1" * 30, ",".join(["1"] * 200)])
def test_an_introduction_holds_labels_or_is_refused(labels: str):
    scalars = dict(encode(HELLO).scalars) | {"labels": labels}
    with pytest.raises(Exception, match="labels must be whole numbers"):
        decode(Hello, scalars)


def _own_rows(site: Site, name: str, header: str, rows: list[tuple[float, ...]]) -> Path:
    path = site.folder / name
    path.write_text(header + "\n" + "".join(",".join(f"{value:.17g}" for value in row) + "\n" for row in rows))
    return path


_TWO = {"dataset": "clients", "num_clients": 2, "clients_per_round": 2}


def _in_process(files: list[Path], **keys: Any) -> str:
    config = RunConfig.from_mapping(SMALL | {key.replace("_", "-"): value for key, value in (_TWO | keys).items()})
    objectives = [own_objective(config, own_rows(config, str(file))) for file in files]
    return in_process(objectives, **_TWO, **keys)


def test_clients_of_one_label_each_can_train(site: Site):
    rng = np.random.default_rng(0)
    files = [
        _own_rows(site, f"{label}.csv", "heat,label", [(value, label) for value in rng.normal(label, 0.1, 20)])
        for label in (1, 2)
    ]
    server = site.server("--min-clients", 2, **_TWO)
    clients = [site.client(f"c{place}", "--data", file) for place, file in enumerate(files)]
    all_end_well(server, clients)
    assert "labels 1, 2; positive: 2" in server.text
    assert "read 20 rows, 1 columns, label 'label' (20 x 1)" in clients[0].text
    assert site.summary()["config"]["positive-labels"] == "2"
    assert site.summary()["last_x_sha256"] == _in_process(files, positive_labels="2")


def test_columns_in_another_order_are_matched_by_name(site: Site):
    rng = np.random.default_rng(1)
    rows = [(*rng.normal(size=2), place % 2) for place in range(20)]
    one = _own_rows(site, "one.csv", "heat,flow,label", rows)
    other = _own_rows(site, "other.csv", "Flow,label,heat", [(flow, label, heat) for heat, flow, label in rows])
    server = site.server("--min-clients", 2, **_TWO)
    all_end_well(server, [site.client("c0", "--data", one), site.client("c1", "--data", other)])
    assert site.summary()["last_x_sha256"] == _in_process([one, one], positive_labels="1")


@pytest.mark.parametrize(
    ("header", "words"),
    [
        ("heat,flow,id,label", "this client has a column 'id' and"),
        ("heat,label", "has a column 'flow' and this client has none"),
    ],
)
def test_a_column_that_one_side_lacks_is_named(site: Site, header: str, words: str):
    """Also where n is known already from the first client."""
    full = [(*np.random.default_rng(1).normal(size=3), place % 2) for place in range(20)]
    one = _own_rows(site, "one.csv", "heat,flow,label", [(row[0], row[1], row[3]) for row in full])
    width = header.count(",")
    other = _own_rows(site, "other.csv", header, [(*row[:width], row[3]) for row in full])
    server = site.server("--min-clients", 2, **_TWO)
    client = site.client("c0", "--data", one)
    client.says("joined")
    site.client("c1", "--data", other).says(re.escape(words))  # and asks again, since c0 may leave
    all_end_well(server, [client, site.client("c2", "--data", one)])


def test_one_file_with_an_index_zero_counts_for_both(site: Site):
    texts = "0 0:1 2:3\n1 1:2\n" * 8, "1 1:4 3:2\n0 2:1\n" * 8
    files = [site.folder / "a.svm", site.folder / "b.svm"]
    for file, text in zip(files, texts, strict=True):
        file.write_text(text)
    server = site.server("--min-clients", 2, **_TWO)
    all_end_well(server, [site.client(f"c{place}", "--data", file) for place, file in enumerate(files)])
    settled = {"svmlight_indices": "from-0", "features": "4", "positive_labels": "1"}
    assert site.summary()["last_x_sha256"] == _in_process(files, **settled)


def test_texts_of_labels_count_alike_on_all_clients(site: Site):
    """A client may have one class alone, and in capitals; a client whose labels are numbers is refused."""
    files = [site.folder / "a.csv", site.folder / "b.csv", site.folder / "numbers.csv"]
    files[0].write_text("heat,label\n" + "1.5,yes\n-1,no\n" * 8)
    files[1].write_text("heat,label\n" + "1.0,YES\n2.0,Yes\n" * 8)
    files[2].write_text("heat,label\n" + "1.0,1\n2.0,0\n" * 8)
    server = site.server("--min-clients", 2, **_TWO, positive_labels="yes")
    wrong = site.client("c2", "--data", files[2])
    assert wrong.ends() == 2
    assert "positive-labels = yes names texts, and these labels are numbers: 0, 1; set positive-labels" in wrong.text
    clients = [site.client(f"c{place}", "--data", file) for place, file in enumerate(files[:2])]
    all_end_well(server, clients)
    assert "the texts of the labels are 'no', 'yes'" in clients[0].text
    assert site.summary()["last_x_sha256"] == _in_process(files[:2], positive_labels="yes")


def test_a_client_with_text_labels_is_told_what_to_set(site: Site):
    file = site.folder / "a.csv"
    file.write_text("heat,label\n" + "1.5,yes\n-1,no\n" * 8)
    site.server("--min-clients", 1, **_TWO)
    client = site.client("c0", "--data", file)
    assert client.ends() == 2
    assert "got 'no', 'yes' in column 2 ('label'); set positive-labels to the texts of class 1" in client.text
    assert "keys of the run config, as in --set positive-labels=yes on the server" in client.text


def test_a_client_with_other_rows_is_refused_on_resume(site: Site):
    rng = np.random.default_rng(2)
    rows = [(*rng.normal(size=2), place % 2) for place in range(20)]
    one = _own_rows(site, "one.csv", "heat,flow,label", rows)
    other = _own_rows(site, "other.csv", "heat,flow,label", [(heat, flow, 1 - label) for heat, flow, label in rows])
    keys = _TWO | {"positive_labels": "1", "step_schedule": "constant"}
    server = site.server("--min-clients", 2, rounds=2, **keys)
    all_end_well(server, [site.client("c0", "--data", one), site.client("c1", "--data", one)])
    server = site.server("--min-clients", 2, resume=True, rounds=4, **keys)
    refused = site.client("c0", "--data", other)
    assert refused.ends() == 2
    assert "is not what this run was made from: its digest was" in refused.text
    assert "--data-changed" in refused.text
    all_end_well(server, [site.client("c0", "--data", one), site.client("c1", "--data", one)])
    server = site.server("--min-clients", 2, "--data-changed", resume=True, rounds=6, **keys)
    all_end_well(server, [site.client("c0", "--data", other), site.client("c1", "--data", one)])


# --- what columns are standardized by


_STANDARD = CONFIG.replace(preprocess="standardize,bias", positive_labels="1")


def _summed(names: str, rows: list[list[float]], **changes: Any) -> dict[str, Any]:
    sums = sums_of(np.array(rows))
    return {
        "names": names,
        "labels": "0,1",
        "examples": len(rows),
        "column_sums": np.concatenate([sums.means, sums.squares]),
    } | changes


def test_sums_of_clients_settle_mean_and_deviation():
    """As if all rows were in one place; columns are matched by name."""
    one, other = [[1.0, 10.0], [3.0, 20.0], [5.0, 60.0]], [[7.0, 30.0]]
    swapped = [[flow, heat] for heat, flow in other]
    found, notes = settle_rules(_STANDARD, _clients(_summed("heat\nflow", one), _summed("flow\nheat", swapped)))
    assert found.standardize_by == columns_text(sums_of(np.array(one + other)))
    assert "columns are standardized by the sums of 2 clients, 4 rows" in notes


def test_sums_of_sparse_files_are_placed_by_their_index():
    """One file counts from 0 and the other seems to count from 1; columns that a file lacks hold zeros."""
    one, other = [[2.0, 0.0, 1.0], [0.0, 4.0, 0.0]], [[3.0, 5.0]]
    clients = _clients(_summed("", one, least_index=0, most_index=2), _summed("", other, least_index=1, most_index=2))
    found, _ = settle_rules(_STANDARD, clients)
    assert found.standardize_by == columns_text(sums_of(np.array([*one, [0.0, *other[0]]])))


def test_a_column_of_one_value_is_told():
    _, notes = settle_rules(_STANDARD, _clients(_summed("heat", [[7.3]] * 3), _summed("heat", [[7.3]] * 4)))
    assert any("1 of them have one value everywhere" in note for note in notes)


@pytest.mark.parametrize("sums", [None, np.ones(3), np.array([1.0, np.nan])])
def test_sums_that_are_none_are_refused(sums: Any):
    with pytest.raises(DataError, match="b must tell the sums of its columns"):
        settle_rules(_STANDARD, _clients(_summed("heat", [[1.0]]), _summed("heat", [[1.0]], column_sums=sums)))


def test_given_deviations_are_settled_already():
    given = _STANDARD.replace(standardize_by="1:2,3:4")
    assert settle_rules(given, _clients(_summed("a\nb", [[1.0, 2.0]], column_sums=None))).config == given.replace(
        features="a,b"
    )


def test_clients_standardize_by_their_common_sums(site: Site):
    """A served run equals one in process on the same rows; a client that restarts is told the same numbers."""
    rng = np.random.default_rng(3)
    rows = [(*(rng.normal(size=2) * [1.0, 1e5] + [1e6, 0.0]), place % 2) for place in range(20)]
    one = _own_rows(site, "one.csv", "heat,flow,label", rows[:13])
    other = _own_rows(site, "other.csv", "flow,heat,label", [(flow, heat, label) for heat, flow, label in rows[13:]])
    keys = {"preprocess": "standardize,bias,unit-norm", "positive_labels": "1"}
    server = site.server("--min-clients", 2, **_TWO, **keys)
    all_end_well(server, [site.client("c0", "--data", one), site.client("c1", "--data", other)])
    settled = site.summary()["config"]["standardize-by"]
    assert settled == columns_text(sums_of(np.array(rows)[:, :2]))
    assert site.summary()["last_x_sha256"] == _in_process(
        [one, other], features="heat,flow", standardize_by=settled, **keys
    )


@pytest.mark.parametrize("option", ["--only-sums", "--least-noise=1"])
def test_a_closed_device_tells_no_sums_of_columns(site: Site, option: str):
    site.server("--min-clients", 1, **_TWO, preprocess="standardize,bias", positive_labels="1")
    file = _own_rows(site, "one.csv", "heat,label", [(1.0, 0), (2.0, 1)])
    key = ["--privacy-key", "key"] if "noise" in option else []
    client = site.client("c0", "--data", file, option, *key)
    assert client.ends() == 2
    assert "allows no sums of its columns" in client.text
