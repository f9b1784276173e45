"""The parameters of a run in place: from the start, which an objective holds, along the trail, bit for bit."""

from __future__ import annotations

from pathlib import Path

from zofedht.common.errors import ConfigError, DataError
from zofedht.common.machine.files import replaced_by
from zofedht.common.machine.memory import lacking
from zofedht.common.objective.base import Shard
from zofedht.common.tensors.agreement import Tensors
from zofedht.common.tensors.blocks import blocks_as_text
from zofedht.common.tensors.loading import checked_in_place, load_in_place
from zofedht.common.tensors.objective import InPlaceObjective
from zofedht.common.tensors.stiff import checked_stiff, stiff_digest
from zofedht.common.tensors.trail import TrailLaw
from zofedht.server.records.finished_run import FinishedRun

__all__ = ["export_parameters", "rebuild"]


def rebuild(run: FinishedRun, objective: InPlaceObjective, *, last: bool = False) -> None:
    """Lead an objective that holds the start of a run to the x that the run returns, or to its ``last`` x.

    Parameters
    ----------
    run : FinishedRun
        Of ``load_run``.
    objective : InPlaceObjective
        Any client's, at the start.
    last : bool

    Raises
    ------
    DataError
        Where the run was not in place, the objective has other blocks or another start than the run's clients had, or
        the parameters come to other bits than those that the clients told.
    """
    tensors = run.tensors
    if tensors is None:
        raise DataError(f"{run.path} is no run in place; its x is load_run({str(run.path)!r}).x")
    checked_in_place(objective, "the objective")
    if blocks_as_text(objective.blocks) != tensors.blocks:
        raise DataError(f"the objective must have the blocks of the clients of {run.path}, it has others")
    if (start := objective.state_digest()) != tensors.start:
        raise DataError(
            f"the objective must hold the parameters that {run.path} began with, of digest {tensors.start}; it holds"
            f" others, {start}"
        )
    if stiff_digest(stiff := checked_stiff(objective.stiff, objective.blocks)) != tensors.stiff:
        raise DataError(f"the objective must name the stiff directions of the clients of {run.path}, it names others")
    trail = run.last if last else run.x
    law = TrailLaw.of_config(run.config)
    if text := lacking(law.guide_bytes(objective.dim), f"the guide that the trail of {run.path} needs"):
        raise DataError(f"{text}; export on a machine with more memory")
    law.follow(objective, trail, 0, law.guide(objective.blocks, stiff))
    _check_bits(run, objective, tensors, len(trail) // law.lengths)


def _check_bits(run: FinishedRun, objective: InPlaceObjective, tensors: Tensors, rounds: int) -> None:
    if rounds == tensors.present_round and (found := objective.state_digest()) != tensors.present:
        raise DataError(
            f"the parameters of {run.path} come to other bits here ({found}) than at its clients ({tensors.present}):"
            " this device rounds otherwise; export on a client's machine"
        )


def export_parameters(run: FinishedRun, out: Path, *, objective: str = "", data: str = "", last: bool = False) -> int:
    """Write the parameters of a run in place as an .npz with an array for each block; return how many there are.

    ``objective`` is a factory in the place of the config's, and ``data`` the file that its Shard names. Raises
    ConfigError without a factory, DataError or ObjectiveError as ``rebuild`` does and where the file cannot be written.
    """
    factory = objective or run.config.objective
    if not factory:
        raise ConfigError([f"{run.path} names no objective; give --objective MODULE:FACTORY, which holds its start"])
    if out.suffix.lower() != ".npz":
        raise DataError(f"--out must end in .npz, since parameters in place are tensors, got {out.name!r}")
    if not out.parent.is_dir():
        raise DataError(f"{out} cannot be written: there is no folder {out.parent}")
    shard = Shard(count=run.config.num_clients, data=data, seed=run.config.seed)
    held = load_in_place(factory, shard)
    rebuild(run, held, last=last)
    with replaced_by(out) as part:
        held.save(part)
    return held.dim
