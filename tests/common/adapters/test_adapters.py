"""torch and onnxruntime as engines of an objective that holds its own parameters, on a tiny transformer."""

from __future__ import annotations

import builtins
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import zofedht.onnx
from tests.common.adapters.small_nets import onnx_objective, sentences, torch_objective, weights
from zofedht import check, run
from zofedht.common.adapters.trainable import LowRank
from zofedht.common.errors import DataError, MissingExtraError, ObjectiveError
from zofedht.common.random.streams import Address
from zofedht.common.tensors.directions import Direction

ROWS = sentences()
ALL = slice(None)


def direction(number: int = 0, probe: str = "gaussian") -> Direction:
    return Direction(Address(3, 1, 0), number, probe)


def same(one: Any, other: Any) -> bool:
    return all(np.array_equal(a, b) for a, b in zip(one.tensors(), other.tensors(), strict=True))


def test_both_engines_give_one_loss(tmp_path: Path) -> None:
    by_onnx, by_torch = onnx_objective(tmp_path, ROWS), torch_objective(ROWS)
    assert by_onnx.blocks == by_torch.blocks
    assert by_onnx.dim == sum(numbers.size for numbers in weights().values())
    assert by_onnx.value(np.array([4, 0, 7])) == pytest.approx(by_torch.value(np.array([4, 0, 7])), abs=1e-6)
    assert by_onnx.evaluate() == pytest.approx(by_torch.evaluate(), abs=1e-6)


def test_a_direction_moves_both_engines_alike(tmp_path: Path) -> None:
    by_onnx, by_torch = onnx_objective(tmp_path, ROWS), torch_objective(ROWS)
    before = by_onnx.value(ALL)
    for objective in (by_onnx, by_torch):
        objective.add_all([direction(0), direction(1)], [0.01, -0.02])
    assert by_onnx.state_digest() == by_torch.state_digest()
    assert by_onnx.value(ALL) != before
    assert by_onnx.value(ALL) == pytest.approx(by_torch.value(ALL), abs=1e-6)


@pytest.mark.parametrize("probe", ["gaussian", "rademacher"])
@pytest.mark.parametrize("kind", ["float32", "float16", "bfloat16"])
def test_torch_adds_as_the_rule_of_directions_says(kind: str, probe: str) -> None:
    """bfloat16 goes by torch's own operations: the product is rounded, and then the sum, in each type."""
    torch = pytest.importorskip("torch", reason="torch is not installed")
    import zofedht.torch

    net = torch.nn.Linear(600, 500).to(getattr(torch, kind))
    start = net.weight.detach().clone()
    objective = zofedht.torch.module(net, lambda net, rows: rows, np.zeros(3))
    objective.add(direction(probe=probe), 0.3)
    v = np.concatenate([part for _, part in direction(probe=probe).pieces(0, 300_000)])
    assert len(v) > 2**18  # more than one piece
    rounded = torch.from_numpy(v).to(start.dtype) * torch.tensor(0.3, dtype=start.dtype)
    assert torch.equal(net.weight, start + rounded.view_as(start))


@pytest.mark.parametrize("kind", ["float32", "float16", "bfloat16"])
def test_tensors_of_torch_are_put_back_bit_for_bit(kind: str, tmp_path: Path) -> None:
    torch = pytest.importorskip("torch", reason="torch is not installed")
    import zofedht.torch

    objective = zofedht.torch.module(
        torch.nn.Linear(9, 5).to(getattr(torch, kind)), lambda net, rows: rows, np.zeros(3)
    )
    begun = objective.state_digest()
    objective.save(tmp_path / "start.npz")
    objective.add(direction(), 0.3)
    assert objective.state_digest() != begun
    objective.load(tmp_path / "start.npz")
    assert objective.state_digest() == begun


def test_layers_in_training_are_named() -> None:
    torch = pytest.importorskip("torch", reason="torch is not installed")
    import zofedht.torch

    net = torch.nn.Sequential(torch.nn.Linear(2, 2), torch.nn.Dropout(0.1), torch.nn.BatchNorm1d(2))
    attention = torch.nn.MultiheadAttention(4, 2, dropout=0.2)
    for wrong, names in ((net, "Dropout 1, BatchNorm1d 2"), (attention, "MultiheadAttention")):
        with pytest.raises(ObjectiveError, match=rf"gives other losses each time .* \({names}\); call net.eval"):
            zofedht.torch.module(wrong, lambda net, rows: rows, np.zeros(3))
        assert zofedht.torch.module(wrong.eval(), lambda net, rows: rows, np.zeros(3)).dim > 0
    net = torch.nn.Sequential(torch.nn.Linear(2, 2), torch.nn.Dropout(0.0))
    assert zofedht.torch.module(net, lambda net, rows: rows, np.zeros(3)).dim == 6


def _model(path: Path, *nodes: Any, inputs: tuple[str, ...] = (), held: dict[str, Any] | None = None) -> Path:
    from onnx import TensorProto, helper, numpy_helper, save

    arrays = {"w": np.ones((2, 1), np.float32), "b": np.ones(1, np.float32), "half": np.float32(0.5), **(held or {})}
    given = [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["rows", 2])]
    given += [helper.make_tensor_value_info(name, TensorProto.FLOAT, arrays[name].shape) for name in inputs]
    every = [helper.make_node("Gemm", ["x", "w", "b"], ["y"]), helper.make_node("Mul", ["y", "half"], ["z"]), *nodes]
    out = [helper.make_tensor_value_info(every[-1].output[0], TensorProto.FLOAT, None)]
    named = [numpy_helper.from_array(np.asarray(array), name) for name, array in arrays.items()]
    graph = helper.make_graph(every, "small", given, out, named)
    save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=9), str(path))
    return path


def _first(net: Any, rows: Any) -> Any:
    return next(iter(net(x=rows).values()))


POINTS = np.arange(6.0, dtype=np.float32).reshape(3, 2)


def test_initialisers_need_not_be_inputs(tmp_path: Path) -> None:
    every = zofedht.onnx.session(_model(tmp_path / "a.onnx"), _first, POINTS)
    assert [block.name for block in every.blocks] == ["w", "b"]  # a single number is a constant
    assert every.value(ALL) == pytest.approx(3.0)
    every.arrays["w"][:] = 0.0
    assert every.value(ALL) == pytest.approx(0.5)
    some = zofedht.onnx.session(_model(tmp_path / "b.onnx", inputs=("b",)), _first, POINTS)
    assert [block.name for block in some.blocks] == ["b"]


def test_nodes_that_do_not_repeat_are_named(tmp_path: Path) -> None:
    from onnx import TensorProto, helper, numpy_helper

    noise = helper.make_node("RandomNormalLike", ["z"], ["noisy"], dtype=TensorProto.FLOAT)
    drop = helper.make_node("Dropout", ["z", "half", "on"], ["thinned"], name="drop.1")
    with pytest.raises(ObjectiveError, match="RandomNormalLike noisy"):
        zofedht.onnx.session(_model(tmp_path / "a.onnx", noise), _first, POINTS)
    with pytest.raises(ObjectiveError, match=r"Dropout drop\.1"):
        zofedht.onnx.session(_model(tmp_path / "b.onnx", drop, held={"on": np.bool_(True)}), _first, POINTS)
    said = helper.make_node(
        "Constant", [], ["on"], value=numpy_helper.from_array(np.array(True))
    )  # as torch exports it
    with pytest.raises(ObjectiveError, match=r"Dropout drop\.1"):
        zofedht.onnx.session(_model(tmp_path / "d.onnx", said, drop), _first, POINTS)
    still = _model(tmp_path / "c.onnx", drop, held={"on": np.bool_(False)})
    assert zofedht.onnx.session(still, _first, POINTS).value(ALL) == pytest.approx(3.0)


@pytest.mark.parametrize("engine", ["onnx", "torch"])
def test_check_names_what_the_doors_cannot_see(engine: str, tmp_path: Path) -> None:
    """Dropout in the loss, which no layer says, of a tiny transformer that is as it should be."""
    rng = np.random.default_rng(0)
    one = onnx_objective(tmp_path, ROWS) if engine == "onnx" else torch_objective(ROWS)
    keys: dict[str, Any] = {"radius": 1e-3, "batch_size": 4, "step_size": 0.01}
    assert {finding.level for finding in check(one, **keys).findings} == {"ok"}
    sound = one._loss

    def dropping(net: Any, rows: Any) -> Any:
        figures = sound(net, rows)
        return {"loss": figures["loss"] * float(rng.random()), "accuracy": figures["accuracy"]}

    one._loss = dropping
    found = {finding.name: finding for finding in check(one, **keys).findings}
    assert found["repeats"].level == "warning"
    assert "put the net into evaluation mode" in found["repeats"].text


def test_a_file_that_is_no_model_is_refused(tmp_path: Path) -> None:
    (tmp_path / "a.onnx").write_text("weights")
    with pytest.raises(ObjectiveError, match=r"a\.onnx cannot be read as an ONNX model"):
        zofedht.onnx.session(tmp_path / "a.onnx", _first, POINTS)


def test_trainable_chooses_tensors_by_name(tmp_path: Path) -> None:
    names = list(weights())
    biases = [block.name for block in onnx_objective(tmp_path, ROWS, trainable="bias").blocks]
    assert biases == [name for name in names if name.endswith("bias")]
    assert [block.name for block in onnx_objective(tmp_path, ROWS, trainable="^head").blocks] == names[-2:]
    with pytest.raises(ObjectiveError, match=r"'foot' finds none of the \d+ tensors; some are embeddings\.word_emb"):
        onnx_objective(tmp_path, ROWS, trainable="foot")
    with pytest.raises(ObjectiveError, match=r"must be a regular expression, got '\('"):
        onnx_objective(tmp_path, ROWS, trainable="(")


def test_frozen_tensors_keep_their_values(tmp_path: Path) -> None:
    assert onnx_objective(tmp_path, ROWS, trainable="^head").value(ALL) == onnx_objective(tmp_path, ROWS).value(ALL)


def test_low_rank_is_w_plus_a_times_b(tmp_path: Path) -> None:
    net = onnx_objective(tmp_path, ROWS)
    choice = LowRank(2, matrices="query|key", whole="^head", scale=3.0)
    thin = onnx_objective(tmp_path, ROWS, trainable=choice)
    assert len(thin) == len(net)
    assert thin.dim == 4 * 2 * (16 + 16) + 17
    assert thin.value(ALL) == net.value(ALL)  # A begins at zero
    thin.add(direction(), 0.05)
    for name, array in net.arrays.items():
        if f"{name}.A" in thin.arrays:
            array += 3.0 * (thin.arrays[f"{name}.A"] @ thin.arrays[f"{name}.B"])
        elif name in thin.arrays:
            array[:] = thin.arrays[name]
    assert thin.value(ALL) == pytest.approx(net.value(ALL), abs=1e-6)
    assert thin.evaluate()["loss"] == pytest.approx(net.evaluate()["loss"], abs=1e-6)


def test_low_rank_is_the_same_for_both_engines(tmp_path: Path) -> None:
    choice = LowRank(2, whole="^head")
    by_onnx, by_torch = onnx_objective(tmp_path, ROWS, trainable=choice), torch_objective(ROWS, trainable=choice)
    for objective in (by_onnx, by_torch):
        objective.add(direction(), 0.05)
    assert by_onnx.state_digest() == by_torch.state_digest()
    assert by_onnx.value(ALL) == pytest.approx(by_torch.value(ALL), abs=1e-6)


@pytest.mark.parametrize("trainable", ["all", LowRank(2)])
def test_clients_may_share_a_net(trainable: Any, tmp_path: Path) -> None:
    one = onnx_objective(tmp_path, ROWS, trainable=trainable)
    other = one.on((ROWS[0][:5], ROWS[1][:5]))
    assert other.holder is one.holder
    assert (len(one), len(other)) == (12, 5)
    assert one.value(np.arange(5)) == other.value(ALL)
    one.add(direction(), 0.1)
    assert same(one, other)
    assert one.value(np.arange(5)) == other.value(ALL)


def test_rows_are_taken_some_at_a_time(tmp_path: Path) -> None:
    whole, parts = (onnx_objective(tmp_path, ROWS, together=rows) for rows in (12, 5))
    assert parts.evaluate() == pytest.approx(whole.evaluate(), abs=1e-7)
    held_out = onnx_objective(tmp_path, ROWS, evaluation=(ROWS[0][:3], ROWS[1][:3]))
    assert held_out.evaluate()["loss"] == pytest.approx(whole.value(np.arange(3)), abs=1e-7)
    columns = {"x": POINTS, "y": np.ones(3)}
    path = _model(tmp_path / "a.onnx")
    mean = zofedht.onnx.session(path, lambda net, rows: net(x=rows["x"])["z"][:, 0] - rows["y"], columns, together=2)
    assert mean.value(ALL) == pytest.approx(2.0)
    with pytest.raises(DataError, match=r"of one length, got lengths \[2, 3\]"):
        zofedht.onnx.session(path, _first, (POINTS, np.ones(2)))
    with pytest.raises(DataError, match="at least 1 row"):
        zofedht.onnx.session(path, _first, POINTS[:0])
    with pytest.raises(ObjectiveError, match="a dict with 'loss', got hits"):
        zofedht.onnx.session(path, lambda net, rows: {"hits": np.ones(3)}, POINTS).value(ALL)


@pytest.mark.parametrize("trainable", ["all", LowRank(2)])
def test_full_evaluations_are_counted_by_their_own_rows(trainable: Any, tmp_path: Path) -> None:
    net = onnx_objective(tmp_path, ROWS, trainable=trainable, evaluation=(ROWS[0][:3], ROWS[1][:3]))
    clients = [net, net.on(ROWS, (ROWS[0][:2], ROWS[1][:2])), net.on(ROWS)]
    keys = {"rounds": 2, "evaluate_every": 1, "local_steps": 1, "batch_size": 2, "step_size": 0.01, "return_x": "last"}
    fewer, all_rows = (run(ones, **keys, probe="rademacher").nfev_full for ones in (clients, [net.on(ROWS)] * 3))
    assert fewer * 3 * 12 == all_rows * (3 + 2 + 12) > 0


@pytest.mark.parametrize(("door", "library", "extra"), [("torch", "torch", "torch"), ("onnx", "onnxruntime", "onnx")])
def test_a_missing_engine_is_named(
    door: str, library: str, extra: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import zofedht.torch

    imported = builtins.__import__

    def without(name: str, *more: Any, **others: Any) -> Any:
        if name == library:
            raise ImportError(name)
        return imported(name, *more, **others)

    monkeypatch.setattr(builtins, "__import__", without)
    make = zofedht.torch.module if door == "torch" else zofedht.onnx.session
    with pytest.raises(MissingExtraError, match=rf"pip install 'zofedht\[{extra}\]'"):
        make(tmp_path / "a.onnx", _first, POINTS)


@pytest.mark.parametrize("engine", ["onnx", "torch"])
def test_a_run_trains_a_tiny_transformer(engine: str, tmp_path: Path) -> None:
    rows, _ = sentences(64)
    labels = np.array([1.0 if row[0] < 25 else -1.0 for row in rows])
    parts = [(rows[:32], labels[:32]), (rows[32:], labels[32:])]
    one = onnx_objective(tmp_path, parts[0]) if engine == "onnx" else torch_objective(parts[0])
    clients = [one, one.on(parts[1])]
    start = np.mean([client.evaluate()["loss"] for client in clients])
    keys = {"rounds": 12, "local_steps": 5, "batch_size": 0, "step_size": 0.03, "evaluate_every": 12, "seed": 1}
    result = run(clients, **keys, radius=1e-3, probe="rademacher", slope="forward", slopes_per_step=4)
    assert start > 0.697
    assert result.fun < 0.694
    assert result.digest == one.state_digest()
    one.save(tmp_path / "weights.npz")
    assert set(np.load(tmp_path / "weights.npz").files) == set(weights())
