"""The forward pass of ``minilm`` as a torch module, for sites that run torch and for the first-order yardstick."""

from __future__ import annotations

import math

from minilm import FULL, Shape
from torch import Tensor, nn
from torch.nn import functional


class Sentences(nn.Module):
    """tokens (batch, length) to logit (batch,). Its parameters have the names and the order of ``minilm.shapes``."""

    def __init__(self, shape: Shape = FULL) -> None:
        super().__init__()
        d = shape.width
        self.split = (shape.heads, d // shape.heads)
        tables = {"word": shape.words, "position": shape.places, "token_type": 2}
        parts = {f"{name}_embeddings": nn.Embedding(rows, d) for name, rows in tables.items()}
        self.embeddings = nn.ModuleDict({**parts, "LayerNorm": nn.LayerNorm(d, 1e-12)})
        self.encoder = nn.ModuleDict({"layer": nn.ModuleList(_layer(d, shape.inner) for _ in range(shape.layers))})
        self.head = nn.Linear(d, 1)

    def forward(self, tokens: Tensor) -> Tensor:
        is_word = tokens > 0
        e = self.embeddings
        h = e["word_embeddings"](tokens) + e["position_embeddings"].weight[: tokens.shape[1]]
        h = e["LayerNorm"](h + e["token_type_embeddings"].weight[0])
        for layer in self.encoder["layer"]:
            maps, out = layer["attention"]["self"], layer["attention"]["output"]
            q, k, v = (maps[name](h).unflatten(-1, self.split).transpose(1, 2) for name in ("query", "key", "value"))
            scores = q @ k.transpose(2, 3) / math.sqrt(self.split[1])
            mixed = scores.masked_fill(~is_word[:, None, None], -1e9).softmax(-1) @ v
            h = out["LayerNorm"](h + out["dense"](mixed.transpose(1, 2).flatten(2)))
            inner = functional.gelu(layer["intermediate"]["dense"](h))
            h = layer["output"]["LayerNorm"](h + layer["output"]["dense"](inner))
        pooled = (h * is_word[..., None]).sum(1) / is_word.sum(1, keepdim=True)
        return self.head(pooled)[:, 0]


def _layer(d: int, inner: int) -> nn.ModuleDict:
    def out(columns: int) -> nn.ModuleDict:
        return nn.ModuleDict({"dense": nn.Linear(columns, d), "LayerNorm": nn.LayerNorm(d, 1e-12)})

    maps = nn.ModuleDict({name: nn.Linear(d, d) for name in ("query", "key", "value")})
    attention = nn.ModuleDict({"self": maps, "output": out(d)})
    intermediate = nn.ModuleDict({"dense": nn.Linear(d, inner)})
    return nn.ModuleDict({"attention": attention, "intermediate": intermediate, "output": out(inner)})
