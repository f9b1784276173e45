"""Objectives that hold their parameters: their digest, their file and their copies."""

from pathlib import Path

import numpy as np
import pytest

from zofedht import Block, ObjectiveError, TensorObjective
from zofedht.common.errors import DataError
from zofedht.common.tensors.blocks import blocks_as_text, checked_blocks


class Distance(TensorObjective):
    """The squared distance from 3, in two blocks."""

    def value(self, batch):
        return float(sum(np.sum((array.astype(np.float64) - 3.0) ** 2) for array in self.arrays.values()))


def make(kind: str = "float32") -> Distance:
    rng = np.random.default_rng(0)
    return Distance({"w": rng.standard_normal((3, 4)).astype(kind), "b": rng.standard_normal(5).astype(kind)})


def test_blocks_and_dimension_are_those_of_the_arrays():
    objective = make()
    assert objective.dim == 17
    assert objective.blocks == (Block("w", (3, 4), "float32"), Block("b", (5,), "float32"))
    assert blocks_as_text(objective.blocks) == "w float32 3x4\nb float32 5"


def test_digest_changes_with_a_bit_a_name_and_a_type():
    objective, other = make(), make()
    assert objective.state_digest() == other.state_digest()
    other.arrays["b"][4] = np.nextafter(other.arrays["b"][4], np.float32(9))
    renamed = Distance({"w": objective.arrays["w"], "c": objective.arrays["b"]})
    digests = {one.state_digest() for one in (objective, other, renamed, make("float64"))}
    assert len(digests) == 4


def test_a_saved_file_brings_the_parameters_back_bit_for_bit(tmp_path: Path):
    objective, other = make(), Distance({"w": np.zeros((3, 4), np.float32), "b": np.zeros(5, np.float32)})
    objective.save(tmp_path / "x.npz")
    other.load(tmp_path / "x.npz")
    assert other.state_digest() == objective.state_digest()
    with np.load(tmp_path / "x.npz") as archive:
        assert np.array_equal(archive["w"], objective.arrays["w"])


def test_a_file_of_other_blocks_is_refused_by_name(tmp_path: Path):
    make("float64").save(tmp_path / "x.npz")
    with pytest.raises(DataError, match="block w must be float32"):
        make().load(tmp_path / "x.npz")
    (tmp_path / "y.npz").write_bytes(b"none")
    with pytest.raises(DataError, match="cannot be read as parameters"):
        make().load(tmp_path / "y.npz")


@pytest.mark.parametrize(
    ("blocks", "sentence"),
    [
        ((), "one or more Block"),
        ((Block("w", (2,)), Block("w", (3,))), "a name of its own without blanks, got 'w'"),
        ((Block("w", (0, 2)),), "block w must hold at least 1 number"),
        ((Block("w", (2,), "int8"),), "block w must be of type float64, float32, float16, bfloat16, got 'int8'"),
    ],
)
def test_wrong_blocks_are_refused_by_name(blocks, sentence: str):
    with pytest.raises(ObjectiveError, match=sentence):
        checked_blocks(blocks, "make()")
