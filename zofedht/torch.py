"""A torch module as an objective, trained by forward passes alone: ``zofedht.torch.module(net, loss, data)``."""

from zofedht.common.adapters.torch_module import module
from zofedht.common.adapters.trainable import LowRank

__all__ = ["LowRank", "module"]
