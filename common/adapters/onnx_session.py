"""``zofedht.onnx.session``: an ONNX model as an objective, evaluated by onnxruntime, which knows no gradients."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from zofedht.common.adapters.low_rank import LowRankObjective, adapted
from zofedht.common.adapters.rows import Loss, RowsObjective
from zofedht.common.adapters.trainable import Trainable, chosen
from zofedht.common.errors import MissingExtraError, ObjectiveError
from zofedht.common.tensors.arrays import TensorObjective

__all__ = ["OnnxObjective", "session"]


def session(
    path: str | Path,
    loss: Loss,
    data: Any,
    *,
    trainable: Trainable = "all",
    evaluation: Any = None,
    together: int = 64,
    threads: int = 0,
    providers: Sequence[str] = ("CPUExecutionProvider",),
) -> OnnxObjective | LowRankObjective:
    """Return an ONNX model as an objective. Trained initialisers become inputs, and their arrays lie in this process.

    Parameters
    ----------
    path : path of an .onnx file
    loss : (net, rows) -> (b,) array, or dict of such
        The loss of each row, where ``net(NAME=array, ...)`` returns a dict of the model's outputs. Means are taken in
        float64. A dict has other figures than "loss" for ``evaluate``.
    data : array, list, or tuple or dict of such columns
        All rows of the client.
    trainable : "all", "bias", regular expression for names, or LowRank
        Among the initialisers of floats that are inputs as well; where there are none, among all those of floats that
        are no single number.
    evaluation : as ``data``, optional
        The rows of ``evaluate``; all of ``data`` unless given.
    together : int
        How many rows ``loss`` gets at most.
    threads : int
        Threads of onnxruntime; 0 for one on each core.
    providers : names of onnxruntime's execution providers

    Raises
    ------
    MissingExtraError
        Without onnx or onnxruntime.
    ObjectiveError
        Where the file is no model, draws random numbers or has nothing trainable.
    """
    return adapted(OnnxObjective(path, loss, data, trainable, evaluation, together, threads, providers), trainable)


class OnnxObjective(RowsObjective, TensorObjective):
    """The trained initialisers of an ONNX model, as ``session`` makes it."""

    def __init__(
        self,
        path: str | Path,
        loss: Loss,
        data: Any,
        trainable: Trainable,
        evaluation: Any,
        together: int,
        threads: int,
        providers: Sequence[str],
    ) -> None:
        try:
            import onnx
            import onnxruntime
        except ImportError as error:
            text = "zofedht.onnx needs onnx and onnxruntime; install them with `pip install 'zofedht[onnx]'`"
            raise MissingExtraError(text) from error
        RowsObjective.__init__(self, loss, data, evaluation, together)
        try:
            model = onnx.load(path)
        except Exception as error:  # protobuf's own errors have no common base
            raise ObjectiveError(f"{path} cannot be read as an ONNX model ({error})") from error
        if unsteady := _unsteady(model.graph):
            text = (
                f"{path} gives other losses each time it is asked ({', '.join(unsteady[:5])}); export it for inference"
            )
            raise ObjectiveError(text)
        TensorObjective.__init__(self, _taken_out(model, trainable))
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = threads
        self._session = onnxruntime.InferenceSession(model.SerializeToString(), options, providers=list(providers))
        self._outputs = [output.name for output in self._session.get_outputs()]

    def _figures(self, loss: Loss, rows: Any) -> Any:
        return loss(self._net, rows)

    def _net(self, **inputs: Any) -> dict[str, NDArray[Any]]:
        return dict(zip(self._outputs, self._session.run(self._outputs, {**inputs, **self.arrays}), strict=True))


def _taken_out(model: Any, trainable: Trainable) -> dict[str, NDArray[Any]]:
    """Return the trained arrays by name. In the model they become inputs without a value, and all others constants."""
    from onnx import helper, numpy_helper

    graph = model.graph
    inputs = {one.name for one in graph.input}
    kinds = {helper.np_dtype_to_tensor_dtype(np.dtype(kind)) for kind in ("float64", "float32", "float16")}
    floats = {one.name: one for one in graph.initializer if one.data_type in kinds and one.dims}
    offered = {name: one for name, one in floats.items() if name in inputs} or floats
    names = chosen({name: tuple(one.dims) for name, one in offered.items()}, trainable)
    arrays = {name: numpy_helper.to_array(offered[name]).copy() for name in names}
    for name in names:
        one = offered[name]
        if name not in inputs:
            graph.input.append(helper.make_tensor_value_info(name, one.data_type, list(one.dims)))
        graph.initializer.remove(one)
    held = {one.name for one in graph.initializer}
    for one in [one for one in graph.input if one.name in held]:
        graph.input.remove(one)
    return arrays


def _unsteady(graph: Any) -> list[str]:
    """Return the nodes that draw random numbers or learn statistics."""
    named = {one.name: one for one in graph.initializer}
    named |= {node.output[0]: a.t for node in graph.node if node.op_type == "Constant" for a in node.attribute}
    true = {name for name, one in named.items() if one.data_type == 9 and any(one.raw_data or one.int32_data)}
    found = []
    for node in graph.node:
        learns = node.op_type == "BatchNormalization" and any(a.name == "training_mode" and a.i for a in node.attribute)
        drops = node.op_type == "Dropout" and len(node.input) > 2 and node.input[2] in true
        if learns or drops or node.op_type.startswith(("Random", "Bernoulli", "Multinomial")):
            found.append(f"{node.op_type} {node.name or node.output[0]}")
    return found
