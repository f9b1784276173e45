"""Worker processes, one for each cell, that share the parent's data set.

The parent loads the data set of the next cell and forks. The child reads the parent's arrays in place (copy on write),
so J workers need the memory of one. While the last cells of one data set run, the parent loads the next set.
"""

from __future__ import annotations

import math
import multiprocessing
import os
import platform
import time
import warnings
from collections.abc import Callable, Sequence
from multiprocessing.process import BaseProcess

from zofedht.common.config.run_config import RunConfig
from zofedht.common.errors import DataError
from zofedht.common.models.linear import LinearObjective
from zofedht.common.models.mlp import MlpObjective
from zofedht.common.random.kernels import runs_compiled
from zofedht.common.shards import objective_of, train_objective
from zofedht.experiments.study.cell_run import Job, cell_process, read_result, same_settings
from zofedht.experiments.study.cluster import Cluster
from zofedht.experiments.study.progress import StudyProgress

__all__ = ["Job", "prepare", "run_missing"]

_POLL_SECONDS = 0.05
_FORKS = platform.system() == "Linux"  # elsewhere system libraries are not safe to fork; workers load for themselves


def run_missing(title: str, jobs: Sequence[Job], workers: int | Cluster, deadline: float = math.inf) -> int:
    """Run the jobs without a result, and show the progress; return how many are left.

    They run in ``workers`` processes, or on the machines of a cluster.

    After ``deadline``, in seconds of the monotonic clock, no other job begins.

    Raises DataError when a result is of other settings, or a worker ends without a result. Then the other workers are
    stopped, and finished cells stay.
    """
    missing = []
    with StudyProgress(title, workers if isinstance(workers, int) else workers.workers) as progress:
        for job in jobs:
            found = read_result(job.folder)
            if found is None:
                missing.append(job)
                progress.expect(job.config)
            elif different := same_settings(found, job.config):
                raise DataError(
                    f"{job.folder.parent} holds {job.name} with another {', '.join(different)}; choose another --out,"
                    " or the options of its begin"
                )
            else:
                progress.skipped(job.config, float(found["seconds"]))
        progress.begin()

        def finished(job: Job, seconds: float) -> None:
            progress.finished(job.name, job.config, seconds)

        if isinstance(workers, int):
            return _run(missing, workers, finished, deadline)
        return workers.run(missing, finished, deadline)


def _run(jobs: Sequence[Job], workers: int, finished: Callable[[Job, float], None], deadline: float) -> int:
    make = multiprocessing.get_context("fork").Process if _FORKS else multiprocessing.get_context("spawn").Process
    waiting, running = list(jobs), list[tuple[Job, BaseProcess, float]]()
    try:
        while running or (waiting and time.monotonic() < deadline):
            while waiting and len(running) < workers and time.monotonic() < deadline:
                job = waiting.pop(0)
                if _FORKS:
                    prepare(job.config)
                process: BaseProcess = make(
                    target=cell_process, args=(job.config, job.folder, os.getpid()), daemon=True
                )
                with warnings.catch_warnings():
                    # BLAS threads are asleep here, and BLAS re-makes them in a child; nothing else has threads.
                    warnings.simplefilter("ignore", DeprecationWarning)
                    process.start()
                running.append((job, process, time.monotonic()))
            running = _collect(running, finished)
        return len(waiting)
    finally:
        for _, process, _ in running:
            process.terminate()
        for _, process, _ in running:
            process.join()


def prepare(config: RunConfig) -> None:
    """Make in the parent what children can share: the data set, unless it is held, and what compiled loops read."""
    train_objective(config)
    if runs_compiled(config.kernel):
        from zofedht.client.kernels.steps import prepare as prepare_loops  # a second that each child would spend again

        for partition in range(config.num_clients):
            shard = objective_of(config.task, partition)
            if isinstance(shard, LinearObjective | MlpObjective):
                prepare_loops(shard)


def _collect(
    running: list[tuple[Job, BaseProcess, float]], finished: Callable[[Job, float], None]
) -> list[tuple[Job, BaseProcess, float]]:
    still = []
    for job, process, started in running:
        process.join(_POLL_SECONDS)
        if process.exitcode is None:
            still.append((job, process, started))
            continue
        if process.exitcode != 0 or read_result(job.folder) is None:
            for _, other, _ in running:
                other.terminate()
            raise DataError(
                f"the worker of cell {job.name} ended with code {process.exitcode} and no result; its message is"
                " above, finished cells are kept, and the same command continues"
            )
        finished(job, time.monotonic() - started)
    return still
