"""`gpulease deadman`: ends VMs of an installation past their tagged deadline.

The dead-man switch is stateless. It needs cloud credentials and the installation's id, but no Postgres, Redis or API.
Run it where a failure of those has no effect on it. It may report its passes to the API, and continues when the API
does not answer. It ends a VM only by the VM's own tag. The tag of an extended lease has a later deadline. The switch
reports a VM without a readable deadline and never ends it.
"""

import argparse
import json
import os
import signal
import sys
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from ipaddress import ip_address
from pathlib import Path
from typing import Any

import httpx
import structlog

from app.domain import tags
from app.domain.inventory import ALIVE
from app.observability.logs import configure_logs
from app.settings import AccountSettings, Settings, StartupError, load_accounts, load_settings
from workers.providers.errors import OutcomeUnknown, ProviderError
from workers.providers.interfaces import Provider
from workers.providers.registry import connect
from workers.providers.types import Vm

log = structlog.get_logger(__name__)

_ALL_REGIONS = "all regions"
_SHORTEST_INTERVAL = 10.0
_HEARTBEAT_KEY = "GPULEASE_HEARTBEAT_KEY"
_HEARTBEAT_SECONDS = 10.0
_HEARTBEAT_PATH = "/v1/ops/deadman"
"""The API route that accepts the key. Only the end of a path is compared: a proxy may serve the API under a prefix."""

Connect = Callable[[AccountSettings, Settings], Provider]
Report = Callable[[dict[str, Any]], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Deadman:
    """One pass over all regions of every account. `report` receives one JSON-serializable fact per call.

    `skipped`: regions whose listing may fail.
    """

    installation: str
    accounts: Sequence[tuple[AccountSettings, Provider]]
    clock: Callable[[], datetime]
    report: Report
    dry_run: bool = False
    skipped: frozenset[str] = frozenset()
    heartbeat: Callable[[], None] = field(default=lambda: None)

    def run(self) -> bool:
        """Ends the VMs past their deadline. False when any place could not be listed, or any VM not ended.

        Sends the heartbeat of a complete pass. `heartbeat` may raise httpx.HTTPError, which does not change the result.
        """
        outcomes = [self._account(account, provider) for account, provider in self.accounts]
        if all(outcomes) and not self.dry_run:
            self._tell()
        return all(outcomes)

    def _tell(self) -> None:
        try:
            self.heartbeat()
        except httpx.HTTPError as error:
            self.report({"event": "heartbeat not sent", "error": str(error)})

    def _account(self, account: AccountSettings, provider: Provider) -> bool:
        """Whether all of the account was listed and every due VM ended. A failed listing protects no other VM."""
        sight = self._look(account, provider)
        due = [vm for vm in sight.vms if self._is_due(vm, account)]
        refused: dict[str, ProviderError] = {}
        for region in sorted({vm.region for vm in due}):
            refused |= self._end(account, provider, region, [vm for vm in due if vm.region == region])
        ended = 0 if self.dry_run else len(due) - len(refused)
        self.report({"event": "looked", "account": account.name, "vms": len(sight.vms), "ended": ended})
        return sight.complete and not refused

    def _look(self, account: AccountSettings, provider: Provider) -> "_Sight":
        sight = _Sight()
        try:
            for page in provider.list_everywhere(self.installation):
                sight.vms += [vm for vm in page.vms if vm.state in ALIVE]
                sight.unreachable |= page.unreachable
                sight.failed |= page.failed
        except ProviderError as error:
            sight.failed[_ALL_REGIONS] = error
        except Exception as error:
            # Outermost handler for this account: a bug in one adapter must not protect the VMs of other accounts.
            log.exception("listing failed", account=account.name)
            sight.failed[_ALL_REGIONS] = _bug(error)
        sight.skip(self.skipped)
        for zone in sorted(sight.unreachable):
            self.report({"event": "unreachable", "account": account.name, "zone": zone})
        for region in sorted(sight.failed):
            self.report({"event": "failed", "account": account.name, "region": region, **_why(sight.failed[region])})
        return sight

    def _end(
        self, account: AccountSettings, provider: Provider, region: str, due: Sequence[Vm]
    ) -> Mapping[str, ProviderError]:
        """Ends the due VMs of a region. Returns the VMs that were not ended, with the reasons."""
        refused: Mapping[str, ProviderError] = {}
        if not self.dry_run:
            try:
                refused = provider.terminate(region, [vm.id for vm in due]).refused
            except ProviderError as error:
                refused = dict.fromkeys([vm.id for vm in due], error)
            except Exception as error:
                # Outermost handler for this region, as in `_look`.
                log.exception("ending failed", account=account.name, region=region)
                refused = dict.fromkeys([vm.id for vm in due], _bug(error))
        for vm in due:
            event = "would end" if self.dry_run else "not ended" if vm.id in refused else "ended"
            why = _why(refused[vm.id]) if vm.id in refused else {}
            self.report({"event": event, **_place(account, vm), **_shown(vm), **why})
        return refused

    def _is_due(self, vm: Vm, account: AccountSettings) -> bool:
        deadline = tags.deadline(vm.tags)
        if deadline is None:
            self.report({"event": "no deadline", **_place(account, vm), **_shown(vm)})
            return False
        return deadline <= self.clock()


@dataclass(slots=True)
class _Sight:
    """The listing of one account."""

    vms: list[Vm] = field(default_factory=list)
    unreachable: frozenset[str] = frozenset()
    failed: dict[str, ProviderError] = field(default_factory=dict)

    @property
    def complete(self) -> bool:
        """Whether every place was listed."""
        return not self.unreachable and not self.failed

    def skip(self, regions: frozenset[str]) -> None:
        """Ignores failures of these regions and of their zones. A zone's name begins with its region's."""
        self.failed = {region: error for region, error in self.failed.items() if region not in regions}
        hidden = {zone for zone in self.unreachable if zone in regions or zone.rpartition("-")[0] in regions}
        self.unreachable -= hidden


def _bug(error: Exception) -> ProviderError:
    return OutcomeUnknown(str(error), code=type(error).__name__)


def _place(account: AccountSettings, vm: Vm) -> dict[str, str]:
    return {"account": account.name, "region": vm.region}


def _why(error: ProviderError) -> dict[str, str | None]:
    return {"code": error.code, "error": error.message}


def _shown(vm: Vm) -> dict[str, Any]:
    return {
        "instance_id": vm.id,
        "instance_type": vm.instance_type,
        "lease_id": vm.tags.get(tags.LEASE),
        "deadline": vm.tags.get(tags.DEADLINE),
    }


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
    _loop(deadman, max(options.every, _SHORTEST_INTERVAL))
    return 0


def _options(arguments: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="gpulease deadman",
        description="End VMs of an installation past their tagged deadline. Needs only cloud credentials.",
        epilog="Prints one JSON line per fact. Exit codes: 0 all seen and ended, 1 a region not seen or a VM not "
        "ended, 2 cannot start.",
    )
    parser.add_argument(
        "--installation", required=True, help="id of the installation (`gpulease ops summary` shows it)"
    )
    parser.add_argument("--config", type=Path, help="gpulease.toml with the accounts (default: GPULEASE_CONFIG)")
    parser.add_argument("--every", type=float, metavar="SECONDS", help="go on, a pass at each interval (at least 10)")
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
