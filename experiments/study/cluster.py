"""Cells of a study over the machines of a Ray cluster; a cell whose machine is lost runs again on another."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from zofedht.common.config.run_config import RunConfig
from zofedht.common.errors import ConfigError, DataError, ZofedhtError
from zofedht.common.machine.files import make_folder, replace_file
from zofedht.experiments.study.cell_run import HISTORY, RESULT, Job, run_cell
from zofedht.server.flower.ray_cluster import RayClusterError, import_ray, join_cluster

__all__ = ["Cluster"]

_TRIES = 3  # more of a cell, after the machine that it ran on was lost


class Cluster:
    """A Ray cluster that this process has joined: that of the variable RAY_ADDRESS, or the one on this machine."""

    def __init__(self) -> None:
        """Raises MissingExtraError without Ray, ConfigError where no cluster answers."""
        self._ray = import_ray("--jobs ray")
        try:
            join_cluster(self._ray, "auto")
        except RayClusterError as error:
            raise ConfigError([f"--jobs ray needs a cluster, named by RAY_ADDRESS or begun here: {error}"]) from error

    @property
    def workers(self) -> int:
        """How many cells can run at once."""
        return max(1, int(self._ray.cluster_resources().get("CPU", 1)))

    def run(self, jobs: Sequence[Job], finished: Callable[[Job, float], None], deadline: float) -> int:
        """Run the jobs, each into its folder on this machine, and return how many are left.

        After ``deadline``, in seconds of the monotonic clock, no other job begins. Raises ZofedhtError of a job.
        """
        remote = self._ray.remote(num_cpus=1, max_retries=_TRIES)(_files_of_cell)
        waiting, running = list(jobs), dict[Any, Job]()
        try:
            while running or (waiting and time.monotonic() < deadline):
                while waiting and len(running) < self.workers and time.monotonic() < deadline:
                    job = waiting.pop(0)
                    running[remote.remote(job.config)] = job
                (done,), _ = self._ray.wait(list(running), num_returns=1)
                job = running.pop(done)
                files, seconds = self._answer(job, done)
                make_folder(job.folder)
                for name in (HISTORY, RESULT):  # the result last: it marks the job as done
                    replace_file(job.folder / name, files[name])
                finished(job, seconds)
            return len(waiting)
        finally:
            for left in running:
                self._ray.cancel(left)

    def _answer(self, job: Job, done: Any) -> tuple[dict[str, bytes], float]:
        """Return the files and seconds of a finished job. Raises ZofedhtError."""
        try:
            answer: tuple[dict[str, bytes], float] = self._ray.get(done)
        except self._ray.exceptions.RayTaskError as error:
            cause = error.cause if isinstance(error.cause, ZofedhtError) else None
            reason = cause or f"{type(error.cause).__name__}: {error.cause}"
            raise DataError(f"cell {job.name} failed on the cluster: {reason}") from error
        except self._ray.exceptions.RayError as error:
            raise DataError(
                f"cell {job.name} was lost {_TRIES + 1} times with the machine that it ran on; finished cells are kept,"
                " and the same command continues"
            ) from error
        return answer


def _files_of_cell(config: RunConfig) -> tuple[dict[str, bytes], float]:
    """Run a cell on a machine of the cluster, and return its files and seconds."""
    started = time.monotonic()
    with tempfile.TemporaryDirectory() as scratch:
        run_cell(config, Path(scratch))
        files = {name: (Path(scratch) / name).read_bytes() for name in (HISTORY, RESULT)}
    return files, time.monotonic() - started
