"""One pass of the dead-man switch over all regions of its accounts."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

import httpx
import structlog

from app.domain import tags
from app.domain.inventory import ALIVE
from app.settings import AccountSettings
from workers.providers.errors import OutcomeUnknown, ProviderError
from workers.providers.ports import Provider
from workers.providers.types import Vm

log = structlog.get_logger(__name__)

_ALL_REGIONS = "all regions"

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
            self.report({"event": event, **_place(account, vm), **_log_fields(vm), **why})
        return refused

    def _is_due(self, vm: Vm, account: AccountSettings) -> bool:
        deadline = tags.deadline(vm.tags)
        if deadline is None:
            self.report({"event": "no deadline", **_place(account, vm), **_log_fields(vm)})
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


def _log_fields(vm: Vm) -> dict[str, Any]:
    return {
        "instance_id": vm.id,
        "instance_type": vm.instance_type,
        "lease_id": vm.tags.get(tags.LEASE),
        "deadline": vm.tags.get(tags.DEADLINE),
    }
