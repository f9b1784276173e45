"""What a client brings, from its own command line, and what it makes of a server's config: never more than that."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from zofedht.client.join.bounds import OwnBounds
from zofedht.client.join.lifetime import Lifetime
from zofedht.client.privacy.identity import Identity
from zofedht.common.choices import AUTO
from zofedht.common.config.run_config import RunConfig
from zofedht.common.data.named_sets import NAMED_SETS
from zofedht.common.errors import DataError, ObjectiveError
from zofedht.common.objective.base import Shard
from zofedht.common.space.space import Space, space_mismatch
from zofedht.common.wire.clients import OWN_ROWS

__all__ = ["JoinOptions", "on_this_machine", "own_parameters", "with_own_columns"]


@dataclass(frozen=True)
class JoinOptions:
    """What this client brings, from its own command line; never from the server."""

    name: str
    instance: str  # of this process, so that it can come back over a new connection
    shard_index: int = OWN_ROWS  # I of I/N, unless the server is to give one
    shard_count: int = 0  # N of I/N
    data: str = ""  # own file
    dataset: str = (
        ""  # what the share is of: a named set, which may then be fetched, or a file; else a named set's files
    )
    objective: str = ""  # own module:factory
    parameters: str = ""  # named parameters of a function of its own, as JSON
    label_column: str = AUTO  # of its own file
    csv_header: str = AUTO  # of its own file
    data_dir: str = ""  # folder of the large sets on this machine
    copies: str = "auto"  # where copies of parameters in place lie: memory, disk or auto
    privacy_key: str = ""  # file of the secret that noise is drawn from
    identity: Identity | None = None  # its certificate, where the connection has TLS
    bounds: OwnBounds = field(default_factory=OwnBounds)  # what its owner allows a server to ask
    lifetime: Lifetime = field(default_factory=lambda: Lifetime(0.0, 1e-5, None))  # what all runs have spent

    @property
    def source(self) -> str:
        """What the objective is made from: objective, data or partition."""
        return "objective" if self.objective else "data" if self.data else "partition"

    def shard(self, seed: int) -> Shard:
        """Return what the client's own factory is given."""
        return Shard(self.name, max(self.shard_index, 0), max(self.shard_count, 1), self.data, seed)


def with_own_columns(config: RunConfig, mine: JoinOptions) -> RunConfig:
    """Return the server's config with this client's word on which column of its own file is the label.

    A client tells its different labels and the names of its columns when it joins. So a server that chose the label
    would learn the values of any column, and one that chose the header the cells of the first row. Raises DataError
    where the server says anything else than this client.
    """
    for key, theirs, ours in (
        ("label-column", config.label_column, mine.label_column),
        ("csv-header", config.csv_header, mine.csv_header),
    ):
        if theirs not in (AUTO, ours):
            raise DataError.public(
                f"the server's {key} is {theirs[:80]!r}, and only a client's own command line says this of its own"
                f" rows; join with --{key} {theirs[:80]}"
            )
    return replace(config, label_column=mine.label_column, csv_header=mine.csv_header)


def own_parameters(config: RunConfig, mine: JoinOptions) -> str:
    """Return the named parameters of this client's own function, as JSON; empty where its code declares them.

    A server that named them could call the function with arguments of its own, such as the path of a file. Raises
    ObjectiveError where the server says anything else than this client.
    """
    if config.parameters and not mine.parameters:
        raise ObjectiveError.public(
            "the run has named parameters, and a client's function is called only with those that its own command line"
            " names; join with --parameters FILE, a TOML file with the same table [parameters]"
        )
    if config.parameters:
        theirs, ours = Space.of_text(config.parameters), Space.of_text(mine.parameters)
        if unlike := space_mismatch(theirs, ours, "the run", "this client's --parameters"):
            raise ObjectiveError(  # a server that has guessed wrong must not learn what is right
                unlike, public_text="the run's named parameters are not those of this client's --parameters"
            )
    return mine.parameters


def on_this_machine(config: RunConfig, mine: JoinOptions) -> RunConfig:
    """Return the server's config with the places of this machine: what is opened is named by its own command line."""
    count = mine.shard_count or config.num_clients
    return replace(config, dataset=_own_choice(config.dataset, mine), data_dir=mine.data_dir, num_clients=count)


def _own_choice(theirs: str, mine: JoinOptions) -> str:
    """Return the data set to take a share of: the command line's, or else the server's where that is a named set.

    Raises DataError when the server names a file, or another set than the command line.
    """
    named = theirs in NAMED_SETS
    if not mine.dataset:
        if named:
            return theirs
        raise DataError.public(
            "the server's data set is a file, and this client opens only files that its own command line names; join"
            " with --dataset FILE, its copy of the whole set, or with --data FILE, its own rows"
        )
    if (mine.dataset in NAMED_SETS or named) and mine.dataset != theirs:
        what = f"'{theirs}'" if named else "a file"
        ours = f"'{mine.dataset}'" if mine.dataset in NAMED_SETS else "a file"
        raise DataError.public(
            f"the server's data set is {what}, and this client was given {ours} as --dataset; they must be the same"
        )
    return mine.dataset
