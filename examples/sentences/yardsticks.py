"""What the runs are compared with: the frozen encoder with a linear head, and first-order fine-tuning by torch."""

from __future__ import annotations

from typing import Any

from minilm import padded


def torch_loss(net: Any, rows: tuple[list[list[int]], Any]) -> dict[str, Any]:
    """Return the logistic loss of each sentence and whether its class is found, as ``reviews.loss`` does."""
    import torch

    sentences, labels = rows
    margins = net(torch.from_numpy(padded(sentences))).double() * torch.as_tensor(labels)
    return {"loss": torch.nn.functional.softplus(-margins), "accuracy": margins > 0.0}
