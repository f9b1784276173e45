"""A linear adapter in front of a model that only gives scores.

Every client photographs digits with a cheap camera: less contrast, dark corners, a glow from one side. The model was
trained on clean scans. The adapter gives each pixel a gain and an offset, x = (64 gains, 64 offsets). Labels stay with
the client; the model gets adapted pixels and answers with log-probabilities.
"""

from __future__ import annotations

import json
import os
import time
import urllib.error
import urllib.request
from pathlib import Path

import numpy as np
from sklearn.datasets import load_digits

from zofedht.common.objective.base import Objective, Shard

_DIGITS = load_digits()
_ROW, _COLUMN = np.divmod(np.arange(64), 8)

START = np.concatenate([np.ones(64), np.zeros(64)])
"""No adapter: pixels are sent unchanged."""


def photographs(number: int, count: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Return the photographs of client ``number`` of ``count``, (rows, 64), and their labels."""
    rng = np.random.default_rng([seed, number])
    mine = np.arange(1, len(_DIGITS.target), 2)[number::count]  # the model has learned the even rows
    clean = _DIGITS.data[mine] / 16.0
    corners = 1.0 - 0.35 * ((_ROW - 3.5) ** 2 + (_COLUMN - 3.5) ** 2) / 24.5
    glow = rng.uniform(0.35, 0.55) * (_COLUMN / 7.0) ** 2  # from the right, in every room a little different
    contrast = rng.uniform(0.4, 0.6)
    seen = contrast * corners * clean + glow + 0.02 * rng.standard_normal(clean.shape)
    return seen, _DIGITS.target[mine]


def address() -> str:
    """Return the address of the model: $MODEL_URL, or the file that model_server.py wrote into this folder."""
    if url := os.environ.get("MODEL_URL"):
        return url
    return Path("model.url").read_text(encoding="utf-8")


def ask(inputs: np.ndarray, tries: int = 1) -> np.ndarray:
    """Return the log-probabilities of many rows, (rows, 10), with one call."""
    body = json.dumps({"inputs": inputs.tolist()}).encode()
    request = urllib.request.Request(address() + "/score", body, {"Content-Type": "application/json"})
    while True:
        try:
            with urllib.request.urlopen(request, timeout=30.0) as answer:
                return np.array(json.load(answer)["scores"])
        except urllib.error.HTTPError as error:
            tries -= 1
            if error.code != 503 or tries == 0:
                raise
        time.sleep(0.05)


class Adapter(Objective):
    """The mean of -log p(label) over a client's photographs behind an adapter."""

    dim = 128

    def __init__(self, photos: np.ndarray, labels: np.ndarray) -> None:
        held_out = len(labels) // 3
        self.photos, self.labels = photos[held_out:], labels[held_out:]
        self.test = photos[:held_out], labels[:held_out]

    def __len__(self) -> int:
        return len(self.labels)

    def value(self, x: np.ndarray, batch: np.ndarray | slice) -> float:
        return float(self.values(x[np.newaxis], batch)[0])

    def values(self, ws: np.ndarray, batch: np.ndarray | slice, tries: int = 1) -> np.ndarray:
        """Evaluate all adapters with one call."""
        sent = np.concatenate([adapted(x, self.photos[batch]) for x in ws])
        scores = ask(sent, tries).reshape(len(ws), -1, 10)
        labels = self.labels[batch]
        return -scores[:, np.arange(len(labels)), labels].mean(axis=1)

    def pair(self, w: np.ndarray, v: np.ndarray, radius: float, batch: np.ndarray | slice) -> tuple[float, float]:
        """Evaluate both ends with one call."""
        high, low = self.values(np.stack([w + radius * v, w - radius * v]), batch)
        return float(high), float(low)

    def evaluate(self, x: np.ndarray) -> dict[str, float]:
        """Ask again after a 503: a full evaluation has no step to skip."""
        loss = float(self.values(x[np.newaxis], slice(None), tries=5)[0])
        photos, labels = self.test
        right = ask(adapted(x, photos), tries=5).argmax(axis=1) == labels
        return {"loss": loss, "held_out_accuracy": float(right.mean())}

    def initial(self, rng: np.random.Generator) -> np.ndarray:
        return START.copy()


def adapted(x: np.ndarray, photos: np.ndarray) -> np.ndarray:
    return photos * x[:64] + x[64:]


def make(shard: Shard) -> Adapter:
    return Adapter(*photographs(shard.index, shard.count, shard.seed))


class OnePromptACall(Adapter):
    """An adapter for a service of one question a call: two threads evaluate both ends at once."""

    concurrency = 2
    pair = Objective.pair


def make_two_calls(shard: Shard) -> OnePromptACall:
    return OnePromptACall(*photographs(shard.index, shard.count, shard.seed))
