"""Nets of other packages as objectives in place.

Others use ``torch_module`` and ``onnx_session`` (nets as objectives), and ``trainable`` (which tensors are trained).
Inside, ``rows`` has the rows that a net is evaluated on, and ``low_rank`` thin matrices beside a net's own.
"""
