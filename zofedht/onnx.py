"""An ONNX model as an objective, evaluated by onnxruntime: ``zofedht.onnx.session(path, loss, data)``."""

from zofedht.common.adapters.onnx_session import session
from zofedht.common.adapters.trainable import LowRank

__all__ = ["LowRank", "session"]
