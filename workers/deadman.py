"""`gpulease deadman`: ends VMs of an installation past their tagged deadline.

Stateless: cloud credentials and the installation's id are all it needs; no Postgres, no Redis, no API. Run it where a
failure of those cannot reach. It may tell the API of its passes, and goes on when nobody listens. It ends a VM only by the VM's own tag: an extended lease's tag has been moved on, and a VM without a readable
deadline is reported, never ended.
"""

import argparse
import json
import os
import signal
import sys
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import httpx

from app.domain import tags
from app.domain.inventory import ALIVE
from app.settings import AccountConfig, Settings, StartupError, load_accounts, load_settings
from app.settings.logs import configure_logs
from workers.providers.base import Provider, ProviderError, Vm
from workers.providers.registry import connect

_SHORTEST_INTERVAL = 10.0
_HEARTBEAT_KEY = "GPULEASE_HEARTBEAT_KEY"
_HEARTBEAT_SECONDS = 10.0

Connect = Callable[[AccountConfig, Settings], Provider]
Report = Callable[[dict[str, Any]], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Deadman:
    """One pass over every account and region of the configuration. `report` gets one JSON-able fact per call."""

    installation: str
    accounts: Sequence[tuple[AccountConfig, Provider]]
    clock: Callable[[], datetime]
    report: Report
    dry_run: bool = False
    heartbeat: Callable[[], None] = field(default=lambda: None)

    def run(self) -> bool:
        """Ends what is past its deadline. False when any region could not be listed or any VM not ended.

        Tells a pass that did its whole work: `heartbeat` may raise httpx.HTTPError, which changes nothing.
        """
        outcomes = [
            self._region(account, provider, region) for account, provider in self.accounts for region in account.regions
        ]
        if all(outcomes) and not self.dry_run:
            self._tell()
        return all(outcomes)

    def _tell(self) -> None:
        try:
            self.heartbeat()
        except httpx.HTTPError as error:
            self.report({"event": "heartbeat not told", "error": str(error)})

    def _region(self, account: AccountConfig, provider: Provider, region: str) -> bool:
        place = {"account": account.name, "region": region}
        try:
            pages = provider.list(frozenset({region}), self.installation)
            vms = [vm for page in pages for vm in page.vms if vm.state in ALIVE]
            due = [vm for vm in vms if self._is_due(vm, place)]
            if due and not self.dry_run:
                provider.terminate(region, [vm.id for vm in due])
        except ProviderError as error:
            self.report({"event": "failed", **place, "code": error.code, "error": error.message})
            return False
        for vm in due:
            self.report({"event": "would end" if self.dry_run else "ended", **place, **_shown(vm)})
        self.report({"event": "looked", **place, "vms": len(vms), "ended": 0 if self.dry_run else len(due)})
        return True

    def _is_due(self, vm: Vm, place: dict[str, str]) -> bool:
        deadline = tags.deadline(vm.tags)
        if deadline is None:
            self.report({"event": "no deadline", **place, **_shown(vm)})
            return False
        return deadline <= self.clock()


def _shown(vm: Vm) -> dict[str, Any]:
    return {
        "instance_id": vm.id,
        "instance_type": vm.instance_type,
        "lease_id": vm.tags.get(tags.LEASE),
        "deadline": vm.tags.get(tags.DEADLINE),
    }


def main(arguments: Sequence[str], *, connect_account: Connect = connect) -> int:
    """0 when everything was looked at, 1 when a region failed, 2 with one line on stderr when it cannot start."""
    options = _options(arguments)
    try:
        deadman = _build(options, connect_account)
    except StartupError as error:
        sys.stderr.write(f"gpulease deadman: {error}\n")
        return 2
    if options.every is None:
        return 0 if deadman.run() else 1
    _loop(deadman, max(options.every, _SHORTEST_INTERVAL))
    return 0


def _options(arguments: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="gpulease deadman",
        description="End VMs of an installation past their tagged deadline. Needs only cloud credentials.",
        epilog="Prints one JSON line per fact. Exit codes: 0 all looked at, 1 a region failed, 2 cannot start.",
    )
    parser.add_argument(
        "--installation", required=True, help="id of the installation (`gpulease ops summary` shows it)"
    )
    parser.add_argument("--config", type=Path, help="gpulease.toml with the accounts (default: GPULEASE_CONFIG)")
    parser.add_argument("--every", type=float, metavar="SECONDS", help="go on, a pass at each interval (at least 10)")
    parser.add_argument(
        "--heartbeat-url",
        metavar="URL",
        help=f"POST there after each complete pass, with the key in {_HEARTBEAT_KEY} as bearer token: the API's /v1/ops/deadman",
    )
    parser.add_argument("--dry-run", action="store_true", help="say what would be ended, end nothing")
    return parser.parse_args(arguments)


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
        heartbeat=_heartbeat(options.heartbeat_url),
    )


def _heartbeat(url: str | None) -> Callable[[], None]:
    """Tells one pass. Raises StartupError for an address that is none."""
    if url is None:
        return lambda: None
    if not url.startswith(("https://", "http://")):
        msg = f"--heartbeat-url {url!r} is not an http address"
        raise StartupError(msg)
    key = os.environ.get(_HEARTBEAT_KEY)
    headers = {"Authorization": f"Bearer {key}"} if key else {}

    def tell() -> None:
        httpx.post(url, headers=headers, timeout=_HEARTBEAT_SECONDS).raise_for_status()

    return tell


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
