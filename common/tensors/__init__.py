"""Models too large for vectors: parameters that are changed where they lie, along directions that are drawn block by
block.

Others use ``blocks`` (Block: name, shape and type of a tensor), ``objective`` (InPlaceObjective, what a client brings:
its ``add`` changes the parameters), ``arrays`` (TensorObjective, for who holds NumPy arrays), ``directions``
(Direction: v, of which nothing is held; add_all: adds directions to a tensor), ``guide`` (Trajectory: the last moves
beside the parameters; Guided: directions along them), ``stiff`` (Shrunk: directions that shrink along told ones),
``laws`` (directions of low rank, and those of a subset of the parameters), ``trail`` (TrailLaw: how the trail leads
from the start to x; the server's state and ``client/tensors/held`` keep it), ``agreement`` (Tensors: in what all
clients must be alike), and ``loading`` (from module:factory to a checked objective). ``common/adapters`` makes such
objectives of nets.
"""
