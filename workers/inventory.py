"""Inventory and garbage collection: one full listing of an account, compared with the database region by region.

The cloud is listed first, the database read second. What a row proves dead is ended at once; a VM of ours without
any row is shown as an orphan and ended after the grace; a lease whose VM is missing is verified by a direct get.
"""

import json
from collections.abc import Callable, Collection, Iterable
from datetime import datetime
from decimal import Decimal
from typing import Any

import structlog

from app.db import inventory as statements
from app.db.events import NewEvent
from app.db.transitions import WAKE, locked, write
from app.domain.ids import LeaseId
from app.domain.inventory import Findings, Key, Listing, Row, Seen, compare
from app.domain.leases import AttemptState, VmState
from app.domain.tags import ATTEMPT, LEASE, deadline
from workers.adoption import adopt_requested
from workers.brakes import ROWLESS, VANISHED, check_cluster, check_tags, mass_loss
from workers.listings import AccountListing, Listed
from workers.notices import tell_orphans
from workers.observing import reason_json
from workers.providers.base import Interruption, Provider, Throttled, Vm
from workers.runtime import Runtime

log = structlog.get_logger(__name__)

_KILLS_A_CYCLE = 50
_KILL_AGAIN_SECONDS = 30.0


def take_inventory(runtime: Runtime, account: str, region: str) -> int:
    """One cycle of one region. Answers the number of VMs listed. Raises ProviderError.

    A listing that broke off changes nothing.
    """
    cycle = Cycle(runtime, account, frozenset({region}))
    count = cycle.compare(region)
    cycle.end_orphans(region)
    return count


def take_account_inventory(runtime: Runtime, account: str, regions: frozenset[str]) -> tuple[Callable[[str], int], ...]:
    """Lists several regions at once. Answers what is left to do for each; VMs are ended after all were compared.

    Raises ProviderError; a listing that broke off changes nothing.
    """
    cycle = Cycle(runtime, account, regions)
    return cycle.compare, cycle.end_orphans


class Cycle:
    """One listing of some regions, made at once, and what follows from it for each of them. Raises ProviderError."""

    def __init__(self, runtime: Runtime, account: str, regions: frozenset[str]) -> None:
        runtime.accounts.check_identity(account)
        check_cluster(runtime.database)
        self._runtime = runtime
        self._account = account
        self._provider = runtime.accounts.provider(account)
        self._before = {row.region: row for row in runtime.database.all(statements.region_rows(account, regions))}
        if not self._before:
            msg = f"no row for {account}/{'/'.join(sorted(regions))}"
            raise LookupError(msg)
        started_at = next(iter(self._before.values())).now
        self._listing = AccountListing(
            self._provider,
            regions,
            runtime.installation.id,
            started_at=started_at,
            monotonic=runtime.monotonic,
        )
        self._interruptions = self._provider.interruptions(regions, runtime.installation.id)
        self._braked: dict[str, frozenset[str]] = {}

    def compare(self, region: str) -> int:
        """Writes what the listing says of a region. Answers the number of its VMs. Raises ProviderError: it says nothing."""
        runtime, account, before = self._runtime, self._account, self._before[region]
        listed = self._listing.of(region)
        findings, rows = _compare(runtime, account, region, listed)
        _check_tags(runtime, account, region, findings)
        braked = _mass_loss(runtime, account, region, rows.values(), findings)
        if VANISHED in braked:
            findings.absent.clear()
        _store(runtime, listed, findings, before.last_complete_listing_at)
        _store_notices(runtime, rows.values(), self._interruptions)
        _sight_orphans(runtime, account, region, listed, findings)
        runtime.database.run(
            statements.listed(
                account,
                region,
                started_at=listed.started_at,
                count=len(listed.vms),
                cost=(listed.calls, Decimal(str(round(listed.seconds, 3)))),
                all_well=not braked,
                all_zones=all(row.zone not in listed.unreachable for row in rows.values()),
            )
        )
        self._braked[region] = braked
        return len(listed.vms)

    def end_orphans(self, region: str) -> int:
        """Adopts and ends what is due in a region that was compared. Answers how many were asked to end."""
        adopt_requested(self._runtime, self._account, region)
        rowless_too = ROWLESS not in self._braked[region]
        return _end_orphans(self._runtime, self._provider, self._account, region, rowless_too=rowless_too)


def _check_tags(runtime: Runtime, account: str, region: str, findings: Findings) -> None:
    """Judges VMs that are rowless for the first time; those shown before were there when an operator resumed."""
    unknown = [seen for seen in findings.rowless if seen.key is not None]
    if unknown:
        shown = runtime.database.all(statements.shown_orphans(account, region, [seen.vm_id for seen in unknown]))
        before = {row.instance_id for row in shown}
        check_tags(runtime.database, [seen.key for seen in unknown if seen.key and seen.vm_id not in before])


def _mass_loss(
    runtime: Runtime, account: str, region: str, rows: Collection[Row], findings: Findings
) -> frozenset[str]:
    """Which losses of this cycle are too many to believe yet. VMs that we asked to end may vanish in any number."""
    live = sum(row.state is AttemptState.KNOWN and not row.ending for row in rows)
    vanished = sum(not row.ending for row in findings.absent)
    counts = [(VANISHED, vanished, live), (ROWLESS, len(findings.rowless), live)]
    return mass_loss(runtime.database, account, region, counts)


def _seen(vm: Vm) -> Seen:
    return Seen(
        vm_id=vm.id,
        zone=vm.zone,
        state=vm.state,
        key=_key(vm),
        token=vm.token,
        public_ip=vm.public_ip,
        private_ip=vm.private_ip,
    )


def _key(vm: Vm) -> Key | None:
    lease_id, n = vm.tags.get(LEASE), vm.tags.get(ATTEMPT, "")
    return (lease_id, int(n)) if lease_id and n.isdecimal() and len(n) < 10 else None


def _compare(runtime: Runtime, account: str, region: str, listed: Listed) -> tuple[Findings, dict[Key, Row]]:
    """Reads the live attempts here and, ended ones included, the attempts that listed VMs name."""
    seen = tuple(_seen(vm) for vm in listed.vms.values())
    place = {"account": account, "region": region}
    with runtime.database.begin() as connection:
        rows = {row.key: row for row in map(statements.row_from, connection.execute(statements.LIVE_ROWS, place))}
        named = [one.key for one in seen if one.key is not None and one.key not in rows]
        found = connection.execute(statements.named_rows(account, region, named))
        rows |= {row.key: row for row in map(statements.row_from, found)}
    listing = Listing(started_at=listed.started_at, seen=seen, unreachable=listed.unreachable)
    return compare(listing, rows, settle_gap=runtime.timing.settle_gap), rows


def _store(runtime: Runtime, listed: Listed, findings: Findings, last_seen_at: datetime | None) -> None:
    """Writes what changed, in a handful of statements; an unchanged lease is not written."""
    observed = statements.Observed()
    for row, seen in findings.changed:
        vm = listed.vms[seen.vm_id]
        observed.add(
            row.attempt_id,
            vm.state,
            at=vm.ended_at or (last_seen_at if vm.state is VmState.GONE else listed.started_at),
            reason=reason_json(vm),
            addresses=(vm.public_ip, vm.private_ip),
        )
    writes: list[Any] = [observed.statement()] if len(observed) else []
    if findings.found:
        writes.append(
            statements.found(
                [
                    (row.attempt_id, s.vm_id, s.state, reason_json(listed.vms[s.vm_id]), s.public_ip, s.private_ip)
                    for row, s in findings.found
                ]
            )
        )
    if findings.absent:
        writes.append(statements.absent([row.attempt_id for row in findings.absent], last_seen_at))
    if findings.empty:
        writes.append(statements.seen_nothing([row.attempt_id for row in findings.empty], listed.started_at))
    if writes:
        told = (*(row for row, _ in (*findings.changed, *findings.found)), *findings.absent, *findings.empty)
        _write_and_wake(runtime, {row.lease_id for row in told}, writes)


def _write_and_wake(runtime: Runtime, about: Iterable[str], writes: Iterable[Any]) -> None:
    with runtime.database.begin() as connection:
        connection.execute(*locked(about))
        lease_ids = sorted({lease_id for write in writes for lease_id in connection.execute(write).scalars()})
        connection.execute(statements.wake(lease_ids))
    runtime.nudge.set()


def _store_notices(runtime: Runtime, rows: Iterable[Row], interruptions: Iterable[Interruption]) -> None:
    """Shows announced interruptions on their leases, each once."""
    notices = {one.vm_id: one for one in interruptions}
    for row in rows:
        notice = notices.get(row.instance_id or "")
        if notice is not None and not row.lease_ended:
            _notice(runtime, row.lease_id, notice)


def _notice(runtime: Runtime, lease_id: LeaseId, notice: Interruption) -> None:
    data = {
        "notice_at": notice.notice_at.isoformat(),
        "deadline_at": notice.deadline_at.isoformat() if notice.deadline_at else None,
        "action": notice.action,
    }
    event = NewEvent(type="lease.interruption_notice", data=data)
    values = {"interruption": data, **WAKE}
    runtime.database.run(write(lease_id, event, where=[statements.NO_NOTICE_YET], values=values))


def _sight_orphans(runtime: Runtime, account: str, region: str, listed: Listed, findings: Findings) -> None:
    """Writes down VMs that no live lease owns: proven ones are due at once, rowless ones after the grace."""
    doomed = {seen.vm_id: cause for seen, _, cause in findings.doomed}
    rowless = {seen.vm_id: "no_row" for seen in findings.rowless}
    with runtime.database.begin() as connection:
        for vm_id, cause in {**rowless, **doomed}.items():
            values = _orphan_values(account, region, listed.vms[vm_id], cause)
            grace = runtime.settings.rowless_grace_seconds if cause == "no_row" else 0.0
            if connection.execute(statements.sight(values, grace_seconds=grace)).scalar_one() == 1:
                about = {"cause": cause, "lease_id": values["lease_id"], "attempt": values["attempt_n"]}
                log.warning("orphan", account=account, region=region, instance_id=vm_id, **about)
        gone = statements.orphans_gone(account, region, [*doomed, *rowless], listed.unreachable)
        tell_orphans(connection, connection.execute(gone).all())


def _orphan_values(account: str, region: str, vm: Vm, cause: str) -> dict[str, Any]:
    key = _key(vm)
    return {
        "account": account,
        "region": region,
        "instance_id": vm.id,
        "zone": vm.zone,
        "instance_type": vm.instance_type,
        "market": str(vm.market),
        "cause": cause,
        "lease_id": key[0] if key else None,
        "attempt_n": key[1] if key else None,
        "tags": json.dumps(dict(vm.tags)),
        "price_per_hour": vm.price_per_hour,
        "launched_at": vm.launched_at,
        "deadline_at": deadline(vm.tags),
    }


def _end_orphans(runtime: Runtime, provider: Provider, account: str, region: str, *, rowless_too: bool) -> int:
    """Ends the orphans that are due, at most fifty a cycle, as fast as the provider's request rate allows.

    None while the installation is on hold; those without a row only when there are not too many at once.
    """
    bucket = runtime.pacer.bucket(account, region, "terminate")
    if not runtime.pacer.take(provider, bucket):
        return 0
    due = statements.orphans_due(
        account, region, again_after=_KILL_AGAIN_SECONDS, limit=_KILLS_A_CYCLE, rowless_too=rowless_too
    )
    rows = runtime.database.all(due)
    if not rows:
        return 0
    for row in rows:
        log.warning("ending orphan", account=account, region=region, instance_id=row.instance_id, cause=row.cause)
    try:
        provider.terminate(region, [row.instance_id for row in rows])
    except Throttled as error:
        runtime.pacer.throttled(provider, bucket, error)
    return len(rows)
