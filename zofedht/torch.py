"""A torch module as an objective, trained by forward passes alone: ``zofedht.torch.module(net, loss, data)``."""

from zofedht.common.tensors.torch_module import module
from zofedht.common.tensors.trainable import LowRank

__all__ = ["LowRank", "module"]
