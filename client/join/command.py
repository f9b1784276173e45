"""``zofedht-client join``: a resident client of a gRPC server."""

from __future__ import annotations

import argparse
import logging
import signal
import uuid
from pathlib import Path

from zofedht.client.join.bounds import OwnBounds
from zofedht.client.join.connection import Connection
from zofedht.client.join.health import Health
from zofedht.client.join.ledger import Ledger
from zofedht.client.join.lifetime import Lifetime
from zofedht.client.join.options import JoinOptions
from zofedht.client.join.resident import ResidentClient
from zofedht.client.join.transport import stay_joined
from zofedht.client.privacy.identity import Identity
from zofedht.client.privacy.secret_file import secret_of_file
from zofedht.common.config.run_config import RunConfig
from zofedht.common.config.texts import load_toml
from zofedht.common.data.named_sets import NAMED_SETS
from zofedht.common.errors import ConfigError
from zofedht.common.terminal.command_line import INTERRUPTED, check_address
from zofedht.common.tls import check_plain_text, read_tls
from zofedht.common.wire.clients import OWN_ROWS

__all__ = ["join"]

_log = logging.getLogger(__name__)


def join(args: argparse.Namespace) -> int:
    """Run the command: 0 when the run is over. Raises ZofedhtError."""
    check_address("--server", args.server)
    check_plain_text(args.server, args.insecure, args.tls_dir)
    index, count = _shard(args.partition)
    tls = read_tls(args.tls_dir, "client") if args.tls_dir else None
    options = JoinOptions(
        name=args.name,
        instance=uuid.uuid4().hex,
        shard_index=index,
        shard_count=count,
        data=str(Path(args.data).expanduser().resolve()) if args.data else "",
        dataset=_own_set(args.dataset),
        objective=args.objective,
        parameters=_own_parameters(args.parameters),
        label_column=args.label_column,
        csv_header=args.csv_header,
        data_dir=args.data_dir,
        copies=args.copies,
        privacy_key=_own_key(args.privacy_key, args.name, needed=args.least_noise > 0.0 or args.lifetime_epsilon > 0.0),
        identity=None if tls is None else Identity(tls),
        bounds=OwnBounds(
            args.least_batch,
            args.most_steps,
            args.least_noise,
            args.only_sums,
            only_noise=args.lifetime_epsilon > 0.0,
            most_snapshot=args.most_snapshot_mb,
        ),
        lifetime=Lifetime(args.lifetime_epsilon, args.lifetime_delta, args.ledger and args.ledger.expanduser()),
    )
    connection = Connection(
        address=args.server,
        tls=tls,
        server_name=args.server_name,
        max_wait=args.max_wait,
        name=args.name,
    )
    client = ResidentClient(options, _log.info)
    health = Health(args.health_address) if args.health_address else None
    up = False

    def connected(now: bool) -> None:
        nonlocal up
        if now and not up:
            facts = {"event": "joined", "server": args.server, "client": args.name}
            _log.info("joined %s as %s", args.server, args.name, extra={"facts": facts})
        up = now
        if health is not None:
            health.show(connected=now)

    ledger = Ledger(args.ledger.expanduser()) if args.ledger else None
    sent = ledger.sent if ledger else lambda message: None
    try:
        stay_joined(connection, client.to_client(), report=_log.info, connected=connected, sent=sent)
    except KeyboardInterrupt as interrupt:
        _log.warning("interrupted; the run goes on without %s", args.name)
        # systemd and docker stop a client by SIGTERM
        return 0 if interrupt.args == (signal.SIGTERM,) else INTERRUPTED
    _log.info("the run is over")
    if args.save is not None:
        client.save(args.save.expanduser())
    return 0


def _own_key(path: Path | None, name: str, *, needed: bool) -> str:
    """Return the full path of the privacy key, which is read once now: a wrong file is told before joining."""
    if path is None:
        if needed:
            raise ConfigError(
                ["--least-noise and --lifetime-epsilon need --privacy-key FILE, which the noise is drawn from"]
            )
        return ""
    resolved = path.expanduser().resolve()
    secret_of_file(resolved, name)
    return str(resolved)


def _own_parameters(path: Path | None) -> str:
    """Return the table [parameters] of a TOML file, which may be the run's, as JSON."""
    if path is None:
        return ""
    keys = load_toml(path.expanduser(), "--parameters")
    if not keys.get("parameters"):
        raise ConfigError([f"--parameters must name a TOML file with a table [parameters], got {path}"])
    return RunConfig.of_part({"parameters": keys["parameters"]}).parameters


def _own_set(text: str) -> str:
    if not text or text in NAMED_SETS:
        return text
    path = Path(text).expanduser().resolve()
    if not path.is_file():
        raise ConfigError([f"--dataset must be {', '.join(NAMED_SETS)}, or a file that exists, got {text!r}"])
    return str(path)


def _shard(text: str) -> tuple[int, int]:
    if text == "auto":
        return OWN_ROWS, 0
    index, slash, count = text.partition("/")
    if slash and index.isdecimal() and count.isdecimal() and int(index) < int(count):
        return int(index), int(count)
    raise ConfigError([f"--partition must be I/N with 0 <= I < N, such as 0/5, or auto, got {text!r}"])
