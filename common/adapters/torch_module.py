"""``zofedht.torch.module``: a torch module as an objective, by forward passes alone."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from zofedht.common.adapters.low_rank import LowRankObjective, adapted
from zofedht.common.adapters.rows import Loss, RowsObjective
from zofedht.common.adapters.trainable import Trainable, chosen
from zofedht.common.errors import MissingExtraError, ObjectiveError
from zofedht.common.tensors.blocks import DTYPES, Block
from zofedht.common.tensors.directions import Direction, add_all

__all__ = ["TorchObjective", "module"]


def module(
    net: Any, loss: Loss, data: Any, *, trainable: Trainable = "all", evaluation: Any = None, together: int = 64
) -> TorchObjective | LowRankObjective:
    """Return a torch module as an objective. Its parameters are changed where they lie, without gradients.

    Parameters
    ----------
    net : torch.nn.Module
        In evaluation mode, on any device. Clients of a simulation may share a net: ``objective.on(data)``.
    loss : (net, rows) -> (b,) tensor, or dict of such
        The loss of each row, such as ``functional.cross_entropy(net(x), y, reduction="none")``. Means are taken in
        float64. A dict has other figures than "loss" for ``evaluate``.
    data : tensor, array, list, or tuple or dict of such columns
        All rows of the client.
    trainable : "all", "bias", regular expression for names, or LowRank
    evaluation : as ``data``, optional
        The rows of ``evaluate``; all of ``data`` unless given.
    together : int
        How many rows ``loss`` gets at most.

    Raises
    ------
    MissingExtraError
        Without torch.
    ObjectiveError
        Where a layer drops numbers at random or learns statistics, no tensor is trainable, or one is of another type.
    """
    return adapted(TorchObjective(net, loss, data, trainable, evaluation, together), trainable)


class TorchObjective(RowsObjective):
    """The parameters of a torch module, as ``module`` makes it."""

    def __init__(self, net: Any, loss: Loss, data: Any, trainable: Trainable, evaluation: Any, together: int) -> None:
        try:
            import torch
        except ImportError as error:
            text = "zofedht.torch needs torch; install it with `pip install 'zofedht[torch]'`"
            raise MissingExtraError(text) from error
        if unsteady := _unsteady(net):
            named = ", ".join(unsteady[:5]) + (f" and {len(unsteady) - 5} more" if len(unsteady) > 5 else "")
            raise ObjectiveError(f"the net gives other losses each time it is asked ({named}); call net.eval() first")
        super().__init__(loss, data, evaluation, together)
        self.net, self._torch = net, torch
        found = dict(net.named_parameters())
        names = chosen({name: tuple(parameter.shape) for name, parameter in found.items()}, trainable)
        self.blocks = tuple(_block(name, found[name]) for name in names)
        self._tensors = [found[name].detach() for name in names]

    @property
    def holder(self) -> object:
        return self.net

    def add(self, direction: Direction, coefficient: float) -> None:
        self.add_all([direction], [coefficient])

    def add_all(self, directions: Sequence[Direction], coefficients: Sequence[float]) -> None:
        for index, tensor in enumerate(self._tensors):
            if tensor.device.type == "cpu" and self.blocks[index].dtype != "bfloat16":
                add_all(tensor.numpy(), index, directions, coefficients)
                continue
            flat = tensor.view(-1)
            for direction, coefficient in zip(directions, coefficients, strict=True):
                length = self._torch.tensor(coefficient, dtype=tensor.dtype, device=tensor.device)
                for part, v in direction.pieces(index, flat.numel()):
                    # Two operations, so that the product is rounded before the sum, as in NumPy.
                    flat[part] += self._torch.from_numpy(v).to(tensor.device, tensor.dtype) * length

    def tensor(self, block: int) -> NDArray[Any]:
        tensor = self._tensors[block].cpu()
        if self.blocks[block].dtype == "bfloat16":
            tensor = tensor.view(self._torch.int16)
            return np.asarray(tensor.numpy()).view(np.uint16)
        return np.asarray(tensor.numpy())

    def put(self, block: int, numbers: NDArray[Any]) -> None:
        given = self._torch.from_numpy(numbers.view(np.int16) if numbers.dtype == np.uint16 else numbers)
        tensor = self._tensors[block]
        tensor.copy_(given.view(self._torch.bfloat16) if numbers.dtype == np.uint16 else given)

    def _figures(self, loss: Loss, rows: Any) -> Any:
        with self._torch.inference_mode():
            figures = loss(self.net, rows)
        if isinstance(figures, dict):
            return {name: self._numbers(values) for name, values in figures.items()}
        return self._numbers(figures)

    def _numbers(self, values: Any) -> Any:
        return values.double().cpu().numpy() if isinstance(values, self._torch.Tensor) else values


def _block(name: str, parameter: Any) -> Block:
    dtype = str(parameter.dtype).removeprefix("torch.")
    if dtype not in DTYPES:
        raise ObjectiveError(f"parameter {name} must be of type {', '.join(DTYPES)} to be trained, got {dtype}")
    if not parameter.is_contiguous():
        raise ObjectiveError(f"parameter {name} must be contiguous to be changed in place; set it to its contiguous()")
    return Block(name, tuple(parameter.shape), dtype)


def _unsteady(net: Any) -> list[str]:
    """Return the kinds and names of the layers that give other outputs each time, or change by being asked."""
    from torch.nn.modules import batchnorm, dropout

    found = []
    for name, layer in net.named_modules():
        share = layer.p if isinstance(layer, dropout._DropoutNd) else getattr(layer, "dropout", 0.0)  # attention, RNN
        drops = isinstance(share, float) and share > 0.0
        learns = isinstance(layer, batchnorm._NormBase) and layer.track_running_stats
        if layer.training and (drops or learns):
            found.append(f"{type(layer).__name__} {name}".rstrip())
    return found
