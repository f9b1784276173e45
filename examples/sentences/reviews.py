"""Sentences of film reviews at several sites, and what a site trains: the factories of the run config.

A site evaluates an ONNX model by onnxruntime. It needs no torch, and no memory for gradients.
"""

from __future__ import annotations

import functools
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from minilm import BIASES, WordPieces, model_folder, padded, pretrained, write_graph

from zofedht import Shard, TensorObjective
from zofedht.onnx import LowRank, session

HERE = Path(__file__).resolve().parent
DATA = Path(os.environ.get("SST2", HERE.parents[2] / "shared" / "data" / "sst2"))
"""The folder with train.tsv and dev.tsv: a sentence, a tab, and 1 for a positive one, else 0."""


def read(part: str) -> tuple[list[list[int]], Any]:
    """Return the word pieces of the sentences of ``part``, and their labels, 1 or -1."""
    file = DATA / f"{part}.tsv"
    if not file.is_file():
        raise SystemExit(f"{file} is missing; see the README for where SST-2 comes from, and set SST2=FOLDER")
    lines = [line.rsplit("\t", 1) for line in file.read_text(encoding="utf-8").splitlines()]
    pieces = WordPieces.read(model_folder())
    return [pieces(sentence) for sentence, _ in lines], np.array([2.0 * int(label) - 1.0 for _, label in lines])


def loss(net: Any, rows: tuple[list[list[int]], Any]) -> dict[str, Any]:
    """Return the logistic loss of each sentence, and whether its class is found."""
    sentences, labels = rows
    margins = labels * in_groups(lambda tokens: net(tokens=tokens)["logit"], sentences)
    return {"loss": np.logaddexp(0.0, -margins), "accuracy": margins > 0.0}


def in_groups(forward: Any, sentences: Sequence[Sequence[int]], size: int = 8) -> Any:
    """Return ``forward`` of the sentences, some of like length at a time: padding is work, too."""
    order = np.argsort([len(one) for one in sentences], kind="stable")
    groups = [order[start : start + size] for start in range(0, len(order), size)]
    found = np.concatenate([forward(padded([sentences[index] for index in group])) for group in groups])
    return found[np.argsort(order)].astype(np.float64)


def make(shard: Shard) -> Any:
    """Train all 22,565,761 parameters."""
    return _site(shard, "all")


def biases(shard: Shard) -> Any:
    """Train the biases and the head."""
    return _site(shard, BIASES)


def low_rank(shard: Shard) -> Any:
    """Train the head, and thin matrices beside those of the attention."""
    return _site(shard, LowRank(4, matrices="query|value", whole="^head"))


def head(shard: Shard) -> Head:
    """Train the head on sentence vectors, which the frozen encoder gives once."""
    return Head(*(sentence_vectors(part, shard.index, shard.count) for part in ("train", "dev")))


class Head(TensorObjective):
    """A linear head on a site's sentence vectors; its blocks are those of the whole model's head."""

    def __init__(self, train: tuple[Any, Any], dev: tuple[Any, Any]) -> None:
        width = train[0].shape[1]
        super().__init__({"head.weight": np.zeros((1, width), np.float32), "head.bias": np.zeros(1, np.float32)})
        self._train, self._dev = train, dev

    def __len__(self) -> int:
        return len(self._train[1])

    @property
    def evaluated(self) -> int:
        return len(self._dev[1])

    def value(self, batch: Any) -> float:
        vectors, labels = self._train
        return float(np.mean(np.logaddexp(0.0, -self._margins(vectors[batch], labels[batch]))))

    def evaluate(self) -> dict[str, float]:
        margins = self._margins(*self._dev)
        return {"loss": float(np.mean(np.logaddexp(0.0, -margins))), "accuracy": float(np.mean(margins > 0.0))}

    def _margins(self, vectors: Any, labels: Any) -> Any:
        weight, bias = (numbers.astype(np.float64) for numbers in self.arrays.values())
        return labels * (vectors @ weight[0] + bias[0])


@functools.cache
def sentence_vectors(part: str, index: int = 0, count: int = 1) -> tuple[Any, Any]:
    """Return the sentence vectors of a site and the labels; they are kept in a file beside the model."""
    from onnxruntime import InferenceSession

    rows, labels = read(part)
    rows, labels = rows[index::count], labels[index::count]
    file = model().with_name(f"vectors-{part}-{index}-of-{count}.npy")
    if not file.is_file():
        encoder = InferenceSession(model())
        np.save(file, in_groups(lambda tokens: encoder.run(["sentence"], {"tokens": tokens})[0], rows))
    return np.load(file), labels


def _site(shard: Shard, trainable: Any) -> Any:
    mine = slice(shard.index, None, shard.count)
    (train, labels), (dev, truth) = (read(part) for part in ("train", "dev"))
    return _net(trainable).on((train[mine], labels[mine]), (dev[mine], truth[mine]))


def model() -> Path:
    """Return the file of the model with a head of zeros; it is written when it is first needed."""
    path = HERE / "minilm.onnx"
    if not path.is_file():
        write_graph(path.with_suffix(f".{os.getpid()}"), pretrained(model_folder()))
        path.with_suffix(f".{os.getpid()}").replace(path)
    return path


@functools.cache
def _net(trainable: Any) -> Any:
    """Return the model with no site's rows yet; the sites of one process share it.

    Where HEAD names a file of a trained head, as ``zofedht-server export`` writes it, the model begins with that.
    """
    net = session(model(), loss, ([[101, 102]], np.ones(1)), trainable=trainable, threads=1)
    net.stiff = [{"head.bias": np.ones(1, np.float32)}]  # it moves all margins together
    if file := os.environ.get("HEAD"):
        trained = np.load(file)
        for place, block in enumerate(net.blocks):
            if block.name in trained.files:
                net.put(place, trained[block.name])
    return net
