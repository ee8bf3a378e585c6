"""`gpulease deadman`: ends VMs of an installation past their tagged deadline.

The dead-man switch is stateless. It needs cloud credentials and the installation's id, but no Postgres, Redis or API.
Run it where a failure of those has no effect on it. It may report its passes to the API, and continues when the API
does not answer. It ends a VM only by the VM's own tag. The tag of an extended lease has a later deadline. The switch
reports a VM without a readable deadline and never ends it.
"""

import argparse
import json
import math
import os
import re
import signal
import sys
import threading
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from ipaddress import ip_address
from pathlib import Path
from typing import Any

import httpx
import structlog

from app.observability.logs import configure_logs
from app.settings import AccountSettings, Settings, StartupError, load_accounts, load_settings
from workers.deadman.sweep import Deadman
from workers.providers.ports import Provider
from workers.providers.registry import connect

log = structlog.get_logger(__name__)

_SHORTEST_INTERVAL, _LONGEST_INTERVAL = 10, 86_400
_INSTALLATION = re.compile(r"[a-z0-9-]{4,40}")
_HEARTBEAT_KEY = "GPULEASE_HEARTBEAT_KEY"
_HEARTBEAT_SECONDS = 10.0
_HEARTBEAT_PATH = "/v1/ops/deadman"
"""The API route that accepts the key. Only the end of a path is compared: a proxy may serve the API under a prefix."""

Connect = Callable[[AccountSettings, Settings], Provider]


def main(arguments: Sequence[str], *, connect_account: Connect = connect) -> int:
    """The exit code: 0 when all places were listed and all due VMs ended.

    1 when a place was not listed or a VM not ended. 2, with a line on stderr, when the switch cannot start.
    """
    options = _options(arguments)
    try:
        deadman = _build(options, connect_account)
    except StartupError as error:
        sys.stderr.write(f"gpulease deadman: {error}\n")
        return 2
    if options.every is None:
        return 0 if deadman.run() else 1
    _loop(deadman, options.every)
    return 0


def _options(arguments: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="gpulease deadman",
        description="End VMs of an installation past their tagged deadline. Needs only cloud credentials.",
        epilog="Prints one JSON line per fact. Exit codes: 0 all seen and ended, 1 a region not seen or a VM not "
        "ended, 2 cannot start.",
    )
    parser.add_argument(
        "--installation",
        required=True,
        type=_installation,
        help="id of the installation (`gpulease ops summary` shows it)",
    )
    parser.add_argument("--config", type=Path, help="gpulease.toml with the accounts (default: GPULEASE_CONFIG)")
    parser.add_argument(
        "--every",
        type=_interval,
        metavar="SECONDS",
        help=f"go on, a pass at each interval ({_SHORTEST_INTERVAL} to {_LONGEST_INTERVAL})",
    )
    parser.add_argument(
        "--heartbeat-url",
        metavar="URL",
        help=f"POST there after each complete pass: the API's {_HEARTBEAT_PATH}, with the key in {_HEARTBEAT_KEY} as bearer "
        "token, or a monitor's address, without it",
    )
    parser.add_argument(
        "--skip-region",
        action="append",
        default=[],
        metavar="REGION",
        help="a region of the accounts that need not be seen, such as one that a policy of the organisation closes; repeatable",
    )
    parser.add_argument("--dry-run", action="store_true", help="say what would be ended, end nothing")
    return parser.parse_args(arguments)


def _installation(text: str) -> str:
    if _INSTALLATION.fullmatch(text) is None:
        raise argparse.ArgumentTypeError(f"{text!r} is no id of an installation")
    return text


def _interval(text: str) -> float:
    try:
        seconds = float(text)
    except ValueError:
        seconds = math.nan
    if not _SHORTEST_INTERVAL <= seconds <= _LONGEST_INTERVAL:
        raise argparse.ArgumentTypeError(
            f"{text!r} is no number of seconds from {_SHORTEST_INTERVAL} to {_LONGEST_INTERVAL}"
        )
    return seconds


def _build(options: argparse.Namespace, connect_account: Connect) -> Deadman:
    settings = load_settings()
    configure_logs(settings.log_level, sys.stderr)
    accounts = load_accounts(options.config or settings.config)
    if not accounts:
        msg = "no accounts: name the accounts file with --config or GPULEASE_CONFIG"
        raise StartupError(msg)
    return Deadman(
        installation=options.installation,
        accounts=[(account, connect_account(account, settings)) for account in accounts.values()],
        clock=_now,
        report=_print,
        dry_run=options.dry_run,
        skipped=frozenset(options.skip_region),
        heartbeat=heartbeat(options.heartbeat_url, os.environ.get(_HEARTBEAT_KEY)),
    )


def heartbeat(url: str | None, key: str | None) -> Callable[[], None]:
    """A function that reports one pass and may raise httpx.HTTPError. Raises StartupError for an invalid address.

    The key is sent only to the API's heartbeat route. It is never sent to a monitor's address or a redirect's target,
    and over plain http only to loopback. An address to which the key may not be sent never stops the switch. Each pass
    reports the error.
    """
    if url is None:
        return lambda: None
    try:
        address = httpx.URL(url)
    except httpx.InvalidURL:
        address = httpx.URL("")
    if address.scheme not in {"https", "http"} or not address.host:
        msg = f"--heartbeat-url {url!r} is not an http address"
        raise StartupError(msg)
    keyed = key is not None and address.path.endswith(_HEARTBEAT_PATH)
    headers = {"Authorization": f"Bearer {key}"} if keyed else {}
    local = _is_loopback(address.host)

    def report_pass() -> None:
        if keyed and address.scheme != "https" and not local:
            raise httpx.UnsupportedProtocol(
                f"the key is sent over https alone: give --heartbeat-url https://{address.host}…"
            )
        httpx.post(
            address, headers=headers, timeout=_HEARTBEAT_SECONDS, follow_redirects=False, trust_env=not local
        ).raise_for_status()

    return report_pass


def _is_loopback(host: str) -> bool:
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def _now() -> datetime:
    return datetime.now(UTC)


def _print(fact: dict[str, Any]) -> None:
    sys.stdout.write(json.dumps({"at": _now().isoformat(timespec="seconds"), **fact}) + "\n")
    sys.stdout.flush()


def _loop(deadman: Deadman, seconds: float) -> None:
    pause = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: pause.set())
    while not pause.is_set():
        deadman.run()
        pause.wait(seconds)
