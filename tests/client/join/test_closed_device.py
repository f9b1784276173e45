"""A server reaches no file, no network and no module of a client, whatever its messages name."""

from __future__ import annotations

import json
import queue
import sys
import threading
from collections.abc import Iterator
from concurrent import futures
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import grpc
import numpy as np
import pytest
from flwr.common import (
    Code,
    FitIns,
    GetParametersIns,
    GetPropertiesIns,
    ndarrays_to_parameters,
    serde,
)
from flwr.proto.transport_pb2 import ClientMessage, ServerMessage

from tests.helpers import spec
from tests.waiting import PATIENCE
from zofedht.client.join.connection import Connection
from zofedht.client.join.resident import JoinOptions, ResidentClient
from zofedht.client.join.transport import stay_joined
from zofedht.common.config.run_config import RunConfig
from zofedht.common.data.named_sets import NAMED_SETS
from zofedht.common.errors import DataError, ZofedhtError
from zofedht.common.random.streams import Address
from zofedht.common.wire.clients import Question
from zofedht.common.wire.codec import encode
from zofedht.common.wire.messages import Broadcast
from zofedht.common.wire.pieces import Assembly

_SECRET = "11,9731"
_EVENTS: list[tuple[str, str]] = []
_WATCHED = ("open", "socket.connect", "socket.getaddrinfo", "import", "subprocess.Popen", "os.listdir", "os.scandir")
_watching = threading.Event()


def _watch(event: str, args: tuple[Any, ...]) -> None:
    if _watching.is_set() and event in _WATCHED:
        _EVENTS.append((event, str(args[0])))


sys.addaudithook(_watch)


@contextmanager
def watched() -> Iterator[list[tuple[str, str]]]:
    """Record what this process opens, imports and connects to."""
    _EVENTS.clear()
    _watching.set()
    try:
        yield _EVENTS
    finally:
        _watching.clear()


@pytest.fixture
def secrets(tmp_path: Path) -> dict[str, Path]:
    """Return files of the device, one of each format, that no command line has named."""
    files = {
        "csv": tmp_path / "vault" / "rows.csv",
        "txt": tmp_path / "vault" / "notes.txt",
        "svm": tmp_path / "vault" / "rows.svm",
        "npz": tmp_path / "vault" / "rows.npz",
        "py": tmp_path / "vault" / "vault_module.py",
    }
    files["csv"].parent.mkdir()
    files["csv"].write_text(f"a,b,label\n{_SECRET},0\n2,3,1\n4,5,0\n6,7,1\n")
    files["txt"].write_text("hunter2 is the password\n")
    files["svm"].write_text("1 1:3\n0 2:4\n1 1:5\n0 2:6\n")
    np.savez(files["npz"], X=np.eye(4), y=[0, 1, 0, 1])
    files["py"].write_text("def make():\n    raise SystemExit\n")
    return files


def question(config: RunConfig, index: int = 0) -> dict[str, Any]:
    return encode(Question("pi", index, config.seed, config.task)).scalars


def fit_config(config: RunConfig, index: int = 0, dimension: int = 65) -> dict[str, Any]:
    steps = spec(local_steps=3, batch_size=8, kernel="numpy")
    broadcast = Broadcast(
        address=Address(0, 0, 0), spec=steps, client="pi", shard_index=index, x=np.zeros(dimension), task=config.task
    )
    return encode(broadcast).scalars


def told_by(client: ResidentClient, config: RunConfig, index: int = 0) -> str:
    """Ask a client everything that a server can about a config, and return all that it answers in words."""
    told = []
    for ask in (client.get_parameters, client.get_properties):
        try:
            told.append(repr(ask(question(config, index))))
        except ZofedhtError as error:
            told.append(error.public_text)
    _, _, metrics = client.fit([np.zeros(65)], fit_config(config, index))
    assert metrics["status"] == "failed"
    loss, _, answers = client.evaluate([np.zeros(65)], question(config, index))
    assert np.isnan(loss)
    return " ".join([*told, repr(metrics), repr(answers)])


def outside(path: Path) -> list[str]:
    """Return the words by which a file, its folder or its contents would be known outside."""
    return [str(path), path.name, "vault", "hunter2", "9731", str(Path.cwd()), str(Path.home())]


@pytest.mark.parametrize("kind", ["csv", "txt", "svm", "npz"])
@pytest.mark.parametrize("key", ["dataset", "data-dir", "objective", "out"])
def test_no_key_of_the_server_opens_a_file(secrets: dict[str, Path], kind: str, key: str):
    path = secrets[kind]
    value = f"{path.with_suffix('')}:make" if key == "objective" else str(path)
    keys = {key: value} | ({"dataset": "mnist"} if key == "data-dir" else {})
    config = RunConfig.from_mapping({"num-clients": 2, **keys})
    client = ResidentClient(JoinOptions("pi", "1", 0, 2, data_dir=str(path.parents[1] / "sets")), lambda text: None)
    if key == "out":  # a key that a task does not even hold
        assert str(path) not in config.task
        return
    with watched() as events:
        told = told_by(client, config)
    assert not [event for event in events if "vault" in event[1]]
    assert not [word for word in outside(path) if word in told]


def test_missing_and_existing_files_look_alike(secrets: dict[str, Path]):
    client = ResidentClient(JoinOptions("pi", "1", 0, 2), lambda text: None)
    there, missing = (
        told_by(client, RunConfig(num_clients=2, dataset=str(path)))
        for path in (secrets["csv"], secrets["csv"].with_name("nothing.csv"))
    )
    assert there == missing


def test_no_module_is_imported(secrets: dict[str, Path], monkeypatch: pytest.MonkeyPatch):
    monkeypatch.chdir(secrets["py"].parent)
    client = ResidentClient(JoinOptions("pi", "1", 0, 2), lambda text: None)
    config = RunConfig(num_clients=2, objective="vault_module:make", step_size=1.0)
    with watched() as events:
        told = told_by(client, config)
    assert "vault_module" not in sys.modules
    assert not [event for event in events if "vault" in event[1]]
    assert not [word for word in outside(secrets["py"]) if word in told]


@pytest.mark.parametrize("name", [name for name, entry in NAMED_SETS.items() if entry.files])
def test_nothing_is_fetched_on_a_servers_word(name: str, tmp_path: Path):
    client = ResidentClient(JoinOptions("pi", "1", 0, 2, data_dir=str(tmp_path / "vault")), lambda text: None)
    with watched() as events:
        told = told_by(client, RunConfig(num_clients=2, dataset=name))
    assert not [event for event in events if event[0].startswith("socket")]
    assert f"the client has no files of the data set '{name}'" in told
    assert str(tmp_path) not in told


def test_the_command_line_may_allow_a_fetch(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    fetched = []

    def fetch(folder: Path) -> Any:
        fetched.append(folder)
        raise OSError("no network here")

    entry = NAMED_SETS["mnist"]
    monkeypatch.setitem(NAMED_SETS, "mnist", type(entry)(fetch, entry.files))
    client = ResidentClient(JoinOptions("pi", "1", 0, 2, dataset="mnist", data_dir=str(tmp_path)), lambda text: None)
    with pytest.raises(DataError, match="no network here") as caught:
        client.get_parameters(question(RunConfig(num_clients=2, dataset="mnist")))
    assert fetched == [tmp_path]
    assert str(tmp_path) not in caught.value.public_text


def test_an_own_files_errors_stay_on_the_device(secrets: dict[str, Path], caplog: pytest.LogCaptureFixture):
    secrets["csv"].write_text(f"a,b,label\n{_SECRET},0\n2,hunter2,1\n")
    client = ResidentClient(JoinOptions("pi", "1", data=str(secrets["csv"])), lambda text: None)
    told = told_by(client, RunConfig(dataset="clients", num_clients=2))
    assert not [word for word in outside(secrets["csv"]) if word in told]
    assert "hunter2" in caplog.text, "the device's own log says what is wrong"


def test_an_objectives_words_stay_on_the_device(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
):
    (tmp_path / "leaky_valve.py").write_text(
        "from zofedht import Objective\n"
        "class Valve(Objective):\n"
        "    dim = 65\n"
        "    def value(self, x, batch):\n"
        "        raise ValueError('hunter2 in /vault/rows.csv')\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    client = ResidentClient(JoinOptions("pi", "1", objective="leaky_valve:Valve"), lambda text: None)
    config = RunConfig(objective="leaky_valve:Valve", num_clients=2, step_size=1.0, on_error="drop-slot")
    told = told_by(client, config)
    assert "the objective raised ValueError (leaky_valve.py, line 5, in value)" in told
    assert "hunter2" not in told
    assert "vault" not in told
    assert "hunter2 in /vault/rows.csv" in caplog.text


@pytest.mark.parametrize("index", [1, -1, 2, 2**31 - 1])
def test_a_client_answers_only_about_its_own_shard(index: int):
    client = ResidentClient(JoinOptions("pi", "1", 0, 2), lambda text: None)
    message = fit_config(RunConfig(num_clients=2), index)
    _, _, metrics = client.fit([np.zeros(65)], message)
    assert metrics["status"] == "failed"
    assert "holds shard 0 of 2 and answers about no other" in str(metrics["reason"])


@pytest.mark.parametrize("index", [-1, 2, 2**31 - 1])
def test_a_client_without_a_shard_refuses_missing_shards(index: int):
    client = ResidentClient(JoinOptions("pi", "1"), lambda text: None)
    _, _, metrics = client.fit([np.zeros(65)], fit_config(RunConfig(num_clients=2), index))
    assert "with num-clients = 2 they are 0 to 1" in str(metrics["reason"])


@pytest.mark.parametrize("task", ["", "[]", "7", "null", "{", "[" * 100_000, '{"seed": 1' + "0" * 5000 + "}"])
def test_a_malformed_task_is_answered(task: str):
    client = ResidentClient(JoinOptions("pi", "1", 0, 2), lambda text: None)
    message = fit_config(RunConfig(num_clients=2)) | {"task": task}
    assert client.fit([np.zeros(65)], message)[2]["status"] == "failed"


_TABLE = "sick,age,label\n41,9731,0\n42,8642,1\n43,7531,0\n44,6420,1\n45,5319,0\n46,4208,1\n"


def _own_table(secrets: dict[str, Path], text: str = _TABLE, **more: Any) -> ResidentClient:
    secrets["csv"].write_text(text)
    return ResidentClient(JoinOptions("pi", "1", data=str(secrets["csv"]), **more), lambda text: None)


@pytest.mark.parametrize(
    "keys",
    [
        {"label-column": "age"},
        {"label-column": "2"},
        {"label-column": "9731"},  # a cell in the place of a name makes the first row a header
        {"csv-header": "yes"},
        {"csv-header": "no"},
    ],
)
@pytest.mark.parametrize("header", [True, False])
def test_no_key_makes_a_client_tell_its_cells(secrets: dict[str, Path], keys: dict[str, str], header: bool):
    """The different labels and the names of columns are told: the server chooses neither the label nor the header."""
    client = _own_table(secrets, _TABLE if header else _TABLE.partition("\n")[2])
    told = told_by(client, RunConfig.from_mapping({"dataset": "clients", "positive-labels": "1", **keys}))
    [key] = keys
    assert f"join with --{key}" in told
    assert not [
        cell for cell in ("9731", "8642", "4208") if cell in told.replace(repr(keys), "").replace(keys[key], "")
    ]


def test_the_command_line_may_name_the_label(secrets: dict[str, Path]):
    client = _own_table(secrets, label_column="sick")
    config = RunConfig(dataset="clients", label_column="sick", positive_labels="42")
    assert client.get_properties(question(config))["labels"] == "41,42,43,44,45,46"


@pytest.mark.parametrize("rows", [1, 2, 4])
def test_sums_of_few_rows_are_not_told(secrets: dict[str, Path], rows: int):
    client = _own_table(secrets, "\n".join(_TABLE.split("\n")[: rows + 1]))
    config = RunConfig(dataset="clients", preprocess="standardize", positive_labels="1")
    with pytest.raises(DataError, match=f"has {rows} rows, and sums of the columns of fewer than 5"):
        client.get_properties(question(config))


_OPENING = "def make(file='none'):\n    raise ValueError(open(file).read())\n"


@pytest.mark.parametrize("name", ["file", "shard"])
def test_a_server_calls_no_function_with_texts_of_its_own(
    secrets: dict[str, Path], monkeypatch: pytest.MonkeyPatch, name: str
):
    """A table of named parameters turns a factory into the function itself, called with any text that a choice has."""
    secrets["py"].with_name("opening_valve.py").write_text(_OPENING)
    monkeypatch.syspath_prepend(secrets["py"].parent)
    client = ResidentClient(JoinOptions("pi", "1", objective="opening_valve:make"), lambda text: None)
    rows = json.dumps({name: {"options": [str(secrets["txt"]), "b"]}})
    config = RunConfig(objective="opening_valve:make", parameters=rows, num_clients=2, algorithm="cma-es")
    with watched() as events:
        told = told_by(client, config)
    assert not [event for event in events if secrets["txt"].name in event[1]]
    assert "join with --parameters FILE" in told
    assert "hunter2" not in told


def test_the_command_line_may_name_the_parameters(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    (tmp_path / "named_valve.py").write_text("def energy(flow):\n    return (flow - .2) ** 2\n")
    monkeypatch.syspath_prepend(tmp_path)
    own, other = (json.dumps({"flow": {"lower": 0, "upper": upper}}) for upper in (1, 2))
    client = ResidentClient(JoinOptions("pi", "1", objective="named_valve:energy", parameters=own), lambda text: None)
    config = RunConfig(objective="named_valve:energy", num_clients=2, algorithm="cma-es")
    assert client.get_properties(question(config.replace(parameters=own)))["dimension"] == 1
    with pytest.raises(ZofedhtError, match=r"the run has the parameter 'flow' as .* this client's --param") as caught:
        client.get_properties(question(config.replace(parameters=other)))
    assert "flow" not in caught.value.public_text


@pytest.mark.parametrize(
    "changes",
    [
        {"batch-size": 2**25, "local-steps": 1},
        {"slopes-per-step": 10_000, "batch-size": 2**20, "local-steps": 1},
    ],
)
def test_nothing_is_allocated_beyond_what_is_free(changes: dict[str, Any], monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("zofedht.common.machine.memory.free_bytes", lambda: 10**9)
    client = ResidentClient(JoinOptions("pi", "1", 0, 2), lambda text: None)
    metrics = client.fit([np.zeros(65)], fit_config(RunConfig(num_clients=2)) | changes)[2]
    assert metrics["status"] == "failed"
    assert "1.0 GB are free; a smaller batch-size" in str(metrics["reason"])


def test_no_vast_slot_in_place_is_begun(monkeypatch: pytest.MonkeyPatch):
    """The directions of ten million steps would be objects of 1.4 GB."""
    monkeypatch.setattr("zofedht.common.machine.memory.free_bytes", lambda: 10**9)
    client = ResidentClient(JoinOptions("pi", "1", objective="tests.place:make"), lambda text: None)
    config = RunConfig(objective="a:b", in_place=True, algorithm="mezo", step_size=0.1, num_clients=1)
    slot = Broadcast(
        address=Address(0, 0, 0), spec=spec(in_place=True, uplink="slopes", local_steps=10**7, kernel="numpy"),
        client="pi", shard_index=0, task=config.task, x=np.zeros(0),
    )  # fmt: skip
    metrics = client.fit(*encode(slot))[2]
    assert metrics["status"] == "failed"
    assert "10,000,000 directions of a slot in place take at least 1.4 GB of memory" in str(metrics["reason"])


class CuriousServer:
    """Speaks Flower's Join stream and asks what it likes."""

    def __init__(self, questions: list[ServerMessage]) -> None:
        self.answers: queue.Queue[ClientMessage] = queue.Queue()
        self._questions = questions
        self._server = grpc.server(futures.ThreadPoolExecutor(2))
        handler = grpc.stream_stream_rpc_method_handler(self._talk, None, ServerMessage.SerializeToString)
        self._server.add_generic_rpc_handlers(
            (grpc.method_handlers_generic_handler("flwr.proto.FlowerService", {"Join": handler}),)
        )
        self.port = self._server.add_insecure_port("127.0.0.1:0")
        self._server.start()

    def _talk(self, pieces: Iterator[bytes], context: Any) -> Iterator[ServerMessage]:
        assembly = Assembly(lambda: 2**20)
        for asked in self._questions:
            yield asked
            answer = next(message for message in map(assembly.take, pieces) if message is not None)
            self.answers.put(ClientMessage.FromString(answer))
        yield ServerMessage(reconnect_ins=ServerMessage.ReconnectIns(seconds=0))

    def close(self) -> None:
        self._server.stop(None).wait()


def test_a_client_survives_bad_questions(secrets: dict[str, Path]):
    honest = RunConfig(num_clients=2)
    path = RunConfig(num_clients=2, dataset=str(secrets["csv"]))
    x = ndarrays_to_parameters([np.zeros(65)])
    odd = {"client": "pi", "shard-index": "zero", "seed": -1, "task": 5}
    questions = [
        ServerMessage(get_properties_ins=serde.get_properties_ins_to_proto(GetPropertiesIns(question(honest)))),
        ServerMessage(get_parameters_ins=serde.get_parameters_ins_to_proto(GetParametersIns(question(path)))),
        ServerMessage(get_parameters_ins=serde.get_parameters_ins_to_proto(GetParametersIns(odd))),
        ServerMessage(fit_ins=serde.fit_ins_to_proto(FitIns(ndarrays_to_parameters([]), fit_config(honest)))),
        ServerMessage(fit_ins=serde.fit_ins_to_proto(FitIns(x, {}))),
        ServerMessage(fit_ins=serde.fit_ins_to_proto(FitIns(x, fit_config(honest)))),
    ]
    server = CuriousServer(questions)
    client = ResidentClient(JoinOptions("pi", "1", 0, 2), lambda text: None).to_client()
    try:
        stay_joined(
            Connection(f"127.0.0.1:{server.port}", None, max_wait=0.0), client,
            report=lambda text: None, connected=lambda up: None,
        )  # fmt: skip
    finally:
        server.close()
    answers = [server.answers.get(timeout=PATIENCE) for _ in questions]
    statuses = [answer.get_parameters_res.status.code for answer in answers[1:3]]
    statuses += [answer.fit_res.status.code for answer in answers[3:5]]
    assert all(status != Code.OK.value for status in statuses)
    assert "vault" not in str(answers)
    assert answers[5].fit_res.metrics["status"].string == "ok", "after all of this it still works"
