"""Who may join: all reasons to refuse a client, and how each is told once."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from zofedht.common.errors import Cause
from zofedht.common.objective.agreement import units_mismatch
from zofedht.common.objective.names import names_mismatch
from zofedht.common.plain_text import printable
from zofedht.common.replay import draw_digest
from zofedht.common.rules import MOST
from zofedht.common.tensors.agreement import Tensors, tensors_mismatch
from zofedht.common.wire.clients import PROTOCOL, Hello
from zofedht.server.admission.settled_rules import columns_mismatch, unknown_labels
from zofedht.server.delivery.fallbacks import OTHER_NUMBERS

__all__ = ["Expected", "Refusal", "RefusalsTold", "other_draws", "refusal"]

_log = logging.getLogger(__name__)

_MOST_TOLD = 100  # in the log
_MOST_NAME, _MOST_REASON = 64, 500  # characters


@dataclass(frozen=True)
class Expected:
    """What a run needs of its clients."""

    dimension: int  # n; 0 while unknown
    shard_count: int  # num-clients; 0 for the number of joined clients at the start
    clients_hold_data: bool  # dataset = clients, or a black box
    black_box: bool  # the server's config names an objective
    count_given: bool = False  # whether ``shard_count`` is a num-clients of the command line
    units: bytes | None = None  # scale and bounds as in a Hello; None while unknown
    names: str | None = None  # of the parameters as in a Hello; None while unknown
    first: str = ""  # the joined client that n, units and names were taken from; empty where the run has its own
    revoked: Callable[[str, str], bool] = lambda name, serial: False  # of a name and a certificate's serial number
    most_dimension: int = MOST  # largest n that the server takes from a client
    miscounts: Callable[[int], str] = lambda count: ""  # why the run cannot have so many clients, or an empty text
    columns: str = ""  # of clients' own rows as in a Hello; empty while unknown
    columns_of: str = ""  # a joined client with these columns
    labels: frozenset[int] | None = None  # from which the positive labels were settled; None where they were given
    sources: Mapping[str, str] = field(default_factory=dict)  # by name, what a resumed run's clients were made from
    in_place: bool = False  # whether clients hold the parameters
    tensors: Tensors | None = None  # what they agree on; None while unknown
    roll: Mapping[str, int] | None = None  # all allowed clients and their numbers of samples; None for any


class Refusal(NamedTuple):
    """Why a client is refused, and whether for good: what another client has said may be false, or withdrawn."""

    reason: str
    final: bool = True


def refusal(hello: Hello, expected: Expected, certified_name: str | None = None, serial: str = "") -> Refusal | None:
    """Return why the client is refused, or None.

    ``certified_name`` and ``serial`` are the common name and the number of its certificate; None and "" without TLS.
    """
    if expected.revoked(hello.name if certified_name is None else certified_name, serial):
        return Refusal("the server's operator refuses this client's name or certificate (--refuse)")
    if reason := _breaks_a_rule(hello, expected, certified_name):
        return Refusal(reason)
    if hello.source == "partition" and hello.shard_index >= 0 and expected.shard_count not in (0, hello.shard_count):
        reason = f"N of --partition I/N must be num-clients = {expected.shard_count}, got {hello.shard_count}"
        return Refusal(reason, expected.count_given)
    if reason := _differs(hello, expected):
        return Refusal(f"{reason}{_settled(expected)}", not expected.first)
    reason = _not_on(expected.roll, hello)
    return Refusal(reason) if reason else None


def _breaks_a_rule(hello: Hello, expected: Expected, certified_name: str | None) -> str | None:
    """Return what no other client has to do with."""
    if hello.protocol != PROTOCOL:
        return (
            f"this client speaks protocol {hello.protocol} (version {hello.version}), the server protocol {PROTOCOL};"
            " install the same version of zofedht on both"
        )
    if certified_name is not None and hello.name != certified_name:
        return (
            f"a client's name must be that of its certificate, {certified_name!r}, got {hello.name!r};"
            f" use --name {certified_name}"
        )
    if not hello.name or len(hello.name) > 64 or not hello.name.isprintable():
        return f"a client's name must have 1 to 64 printable characters, got {hello.name!r}"
    if expected.black_box and hello.source != "objective":
        return "the server trains a black box that only the clients have; join with --objective module:factory"
    if expected.clients_hold_data and hello.source == "partition":
        return "the server has no data set to deal; join with --data FILE or --objective module:factory"
    if not expected.clients_hold_data and hello.source != "partition":
        if hello.source == "objective":
            return (
                "the server trains a model on its own data set, and this client brings an objective; start the server"
                " with --set objective=module:factory, the same as here, or join with --partition I/N alone"
            )
        return (
            "the server deals its own data set; join with --partition I/N (or start the server with"
            " --set dataset=clients for clients that hold their own rows)"
        )
    if hello.source == "objective" and hello.shard_index >= 0 and expected.count_given:
        count, told = expected.shard_count, f"--partition {hello.shard_index}/{hello.shard_count}"
        if hello.shard_count != count:
            return (
                f"N of --partition I/N must be num-clients = {count}, this client was started with {told};"
                f" join with --partition I/{count}, or start the server with num-clients={hello.shard_count}"
            )
    if expected.in_place != bool(hello.tensors):
        ours, theirs = ("in place", "not") if expected.in_place else ("not in place", "is")
        return f"the run is {ours}, and this client's objective {theirs}; in-place is for InPlaceObjectives alone"
    dimension = max(hello.dimension, hello.most_index)  # the columns of a sparse file are so many at least
    if not expected.dimension and dimension > expected.most_dimension:
        return (
            f"this client's objective has n = {dimension} parameters, and messages of --max-message-mb hold at"
            f" most {expected.most_dimension}; raise it on the server"
        )
    counts = hello.source == "partition" and hello.shard_count and not expected.shard_count
    if counts and (reason := expected.miscounts(hello.shard_count)):
        return f"--partition {hello.shard_index}/{hello.shard_count}: {reason}"
    known = expected.sources.get(hello.name)
    if known and hello.source_digest and hello.source_digest != known:
        return (
            f"the data or the objective of {hello.name} is not what this run was made from: its digest was {known}, now"
            f" it is {hello.source_digest}; join with what it was, or start the server with --data-changed"
        )
    return None


def _differs(hello: Hello, expected: Expected) -> str:
    """Return in what the client's objective is not the run's, or an empty text."""
    if hello.source == "data":
        if complaint := columns_mismatch(hello.names, expected.columns, "this client", repr(expected.columns_of)):
            return complaint
        if complaint := unknown_labels(hello, expected.labels):
            return complaint
    if hello.tensors and expected.tensors is not None:
        who = f"client {hello.name}"
        if unlike := tensors_mismatch(Tensors.of_text(hello.tensors), expected.tensors, who, "the run"):
            return unlike
    if expected.dimension and hello.dimension and hello.dimension != expected.dimension:
        way_out = "check model, preprocess and the number of columns"
        if hello.source == "objective":
            way_out = "all clients' objectives must have the same number of parameters"
        return (
            f"the server's x has n = {expected.dimension} parameters, this client's objective has {hello.dimension};"
            f" {way_out}"
        )
    units = hello.units if expected.units is None or not hello.dimension else expected.units
    shared = hello.names.split("\n") if hello.names and hello.names == expected.names else ()
    if len(shared) != hello.dimension:  # the digest of long names
        shared = ()
    unlike = units_mismatch(hello.units, units, "this client's objective", "the run's", shared)
    if not unlike and expected.names is not None and hello.dimension:
        unlike = names_mismatch(hello.names, expected.names, "this client's objective", "the run's")
    return unlike


def _not_on(roll: Mapping[str, int] | None, hello: Hello) -> str | None:
    if roll is None:
        return None
    if hello.name not in roll:
        return (
            f"the fleet has begun with the sites {', '.join(roll)} and takes no other, got {hello.name!r}; begin a new"
            " folder for other sites"
        )
    if hello.examples != roll[hello.name]:
        return (
            f"{hello.name} has {hello.examples} samples, and the fleet has begun with {roll[hello.name]} there; begin a"
            " new folder for other data"
        )
    return None


def _settled(expected: Expected) -> str:
    return f" (the run's are those of {expected.first!r}, which has joined)" if expected.first else ""


class RefusalsTold:
    """Tells each refusal once, whoever refuses: in the log with its facts, or to ``report``."""

    def __init__(self, report: Callable[[str], None] | None = None) -> None:
        self._report = report
        self._told: set[tuple[str, str]] = set()

    def __call__(self, name: str, reason: str, cause: Cause | None) -> None:
        """Tell that a client is not admitted; ``cause`` is given where the client itself does not join."""
        if (name, reason) in self._told or len(self._told) >= _MOST_TOLD:
            return
        self._told.add((name, reason))
        reason = printable(reason, _MOST_REASON)
        shown = repr(name[:_MOST_NAME])
        text = f"refused {shown}: {reason}" if cause is None else f"{shown} does not join ({cause}): {reason}"
        if self._report is None:
            facts = {"event": "refused", "client": name[:_MOST_NAME], "cause": cause or "refused", "reason": reason}
            _log.warning("%s", text, extra={"facts": facts | {"by": "server" if cause is None else "client"}})
        else:
            self._report(text)


def other_draws(hello: Hello) -> str:
    """Return why the client's slopes cannot be replayed, or an empty text.

    Such a client may take part: its move is exact for any directions.
    """
    return "" if hello.draw_digest == draw_digest() else OTHER_NUMBERS
