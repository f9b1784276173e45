"""Models too large for vectors: parameters that stay where they are, and directions that are drawn block by block.

Others use ``blocks`` (Block: name, shape and type of a tensor), ``objective`` (InPlaceObjective, what a client brings),
``arrays`` (TensorObjective, for who holds NumPy arrays), ``directions`` (Direction: v, of which nothing is held),
``trail`` (TrailLaw: what leads from the start to x), ``agreement`` (Tensors: in what all clients must be alike),
``loading`` (from module:factory to a checked objective), ``torch_module`` and ``onnx_session`` (nets as
objectives), and ``trainable`` (which tensors).
"""
