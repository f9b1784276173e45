"""``callback=`` of ``run`` for trackers of experiments: ``from zofedht.callbacks import MLflow, TensorBoard``."""

from zofedht.server.callbacks import MLflow, TensorBoard

__all__ = ["MLflow", "TensorBoard"]
