"""Inventory and garbage collection: one full listing of an account, compared with the database region by region.

The cloud is listed first, the database is read second. A VM that a row proves dead is ended at once. A VM that gpulease
launched and that has no row sets the hold. A VM with copied tags is shown as an orphan and ended after the grace
period. A direct get verifies a missing VM of a lease. A deadline tag that differs from the last written one is written
again.
"""

from collections import Counter
from collections.abc import Callable, Collection, Iterable
from dataclasses import replace
from datetime import datetime, timedelta
from decimal import Decimal

import structlog
from sqlalchemy import Executable

from app.db.core.prepared import Bound, execute
from app.db.events.events import NewEvent
from app.db.fleet import inventory as statements
from app.db.fleet import orphans
from app.db.leases.launches import WANTED
from app.db.leases.transitions import WAKE, locked, write
from app.db.operations import brakes
from app.domain.events import LeaseExtended, LeaseInterruptionNotice
from app.domain.ids import LeaseId
from app.domain.inventory import BatchSlot, Findings, Key, ListedVm, Listing, Row, attempt_of, compare
from app.domain.leases import AttemptState, VmState
from app.domain.tags import attempt_key, deadline
from app.domain.tokens import launch_token
from workers.observation.adoption import adopt_requested
from workers.observation.batch_slots import slots_of
from workers.observation.listings import AccountListing, RegionListing
from workers.observation.orphans import end_orphans, sight_orphans
from workers.observation.slot_labels import label_listed
from workers.observation.vm_reasons import reason_json
from workers.providers.types import Interruption, Vm
from workers.runtime.brakes import BrakeScope, check_cluster, hold_for_lost_rows, mass_loss
from workers.runtime.runtime import Runtime

log = structlog.get_logger(__name__)


def take_inventory(runtime: Runtime, account: str, region: str) -> int:
    """One cycle of one region. Returns the number of VMs listed. Raises ProviderError.

    An incomplete listing changes nothing.
    """
    cycle = Cycle(runtime, account, frozenset({region}))
    count = cycle.compare(region)
    cycle.end_orphans(region)
    return count


def take_account_inventory(runtime: Runtime, account: str, regions: frozenset[str]) -> tuple[Callable[[str], int], ...]:
    """Lists several regions at once. Returns the functions to call for each region, in order.

    VMs are ended after all regions were compared. Raises ProviderError; an incomplete listing changes nothing.
    """
    cycle = Cycle(runtime, account, regions)
    return cycle.compare, cycle.end_orphans


class Cycle:
    """One listing of some regions, made by the constructor, and the actions for each region. Raises ProviderError."""

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
        self._braked: dict[str, BrakeScope] = {}

    def compare(self, region: str) -> int:
        """Writes the listed facts of a region. Returns the number of its VMs.

        Raises ProviderError when the listing failed for the region.
        """
        runtime, account, before = self._runtime, self._account, self._before[region]
        listed = self._listing.of(region)
        findings, rows = _compare(runtime, account, region, listed)
        _hold_for_lost_rows(runtime, account, region, findings)
        braked = _mass_loss(runtime, account, region, rows.values(), findings)
        findings.absent[:] = [row for row in findings.absent if row.tenant_id not in braked.tenants]
        _store(runtime, listed, findings, before.last_complete_listing_at)
        _store_deadlines(runtime, findings)
        _store_notices(runtime, rows.values(), self._interruptions)
        label_listed(runtime, account, region, listed, findings.unlabelled())
        sight_orphans(runtime, account, region, listed, findings)
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
        """Adopts and ends the due orphans of a compared region. Returns for how many termination was requested."""
        adopt_requested(self._runtime, self._account, region)
        rowless_too = not self._braked[region].rowless
        return end_orphans(self._runtime, self._provider, self._account, region, rowless_too=rowless_too)


def _hold_for_lost_rows(runtime: Runtime, account: str, region: str, findings: Findings) -> None:
    """Sets the hold for VMs without a row that are listed for the first time.

    VMs that were listed before existed when an operator resumed.
    """
    if not findings.lost_rows(shown_before=()):
        return
    vm_ids = [seen.vm_id for seen in (*findings.lost, *(seen for _, seen in findings.matched))]
    lost_before = runtime.database.all(orphans.lost_before(account, region, vm_ids))
    before = {row.instance_id for row in lost_before}
    hold_for_lost_rows(runtime.database, findings.lost_rows(before))


def _mass_loss(runtime: Runtime, account: str, region: str, rows: Collection[Row], findings: Findings) -> BrakeScope:
    """Losses of this cycle that still need confirmation.

    VMs whose termination gpulease requested may vanish in any number.
    """
    live = Counter(row.tenant_id for row in rows if row.state is AttemptState.KNOWN and not row.ending)
    vanished = Counter(row.tenant_id for row in findings.absent if not row.ending)
    return mass_loss(runtime.database, account, region, vanished, live, len(findings.copied))


def _seen(vm: Vm, batch: BatchSlot | None) -> ListedVm:
    return ListedVm(
        vm_id=vm.id,
        zone=vm.zone,
        state=vm.state,
        key=attempt_key(vm.tags),
        launch_identity=vm.launch_identity,
        deadline=deadline(vm.tags),
        public_ip=vm.public_ip,
        private_ip=vm.private_ip,
        batch=batch,
    )


def _compare(runtime: Runtime, account: str, region: str, listed: RegionListing) -> tuple[Findings, dict[Key, Row]]:
    """Compares the listing with the region's live attempts and all attempts, also ended ones, that listed VMs name."""
    place = {"account": account, "region": region}
    token_of = _token_of(runtime)
    with runtime.database.begin() as connection:
        rows = {row.key: row for row in map(statements.row_from, connection.execute(statements.LIVE_ROWS, place))}
        slots = slots_of(connection, runtime, account, region, listed.vms.values(), rows.values())
        seen = tuple(_seen(vm, slots.get(vm.id)) for vm in listed.vms.values())
        keys = {key for vm in seen for key in (vm.key, attempt_of(vm, token_of)) if key is not None}
        named_rows = connection.execute(*statements.named_rows(account, region, sorted(keys - rows.keys())))
        rows |= {row.key: row for row in map(statements.row_from, named_rows)}
    listing = Listing(started_at=listed.started_at, seen=seen, unreachable=listed.unreachable)
    findings = compare(listing, rows, token_of=token_of, settle_gap=runtime.timing.settle_gap)
    return _without_owned_elsewhere(runtime, findings), rows


def _token_of(runtime: Runtime) -> Callable[[LeaseId, int], str]:
    installation = runtime.installation
    return lambda lease_id, n: launch_token(installation.token_key, installation.id, lease_id, n)


def _without_owned_elsewhere(runtime: Runtime, findings: Findings) -> Findings:
    """Drops lost VMs that have a row under another account name: the configuration may have renamed the account."""
    keys = {seen.key for seen in findings.lost if seen.key is not None}
    if not keys:
        return findings
    owned = {row.instance_id for row in runtime.database.all(statements.vms_of(keys))}
    return replace(findings, lost=[seen for seen in findings.lost if seen.vm_id not in owned])


def _store(runtime: Runtime, listed: RegionListing, findings: Findings, last_seen_at: datetime | None) -> None:
    """Writes the changes in a few statements. An unchanged lease is not written."""
    observed = statements.ObservationBatch()
    for row, seen in findings.changed:
        vm = listed.vms[seen.vm_id]
        observed.add(
            row.attempt_id,
            vm.state,
            at=vm.ended_at
            or (row.ran_until(last_seen_at, listed.started_at) if vm.state is VmState.GONE else listed.started_at),
            reason=reason_json(vm, listed.started_at),
            addresses=(vm.public_ip, vm.private_ip),
        )
    writes: list[Executable | Bound[Executable]] = [observed.statement()] if len(observed) else []
    if findings.matched:
        writes.append(
            statements.record_found_vms(
                [
                    (
                        row.attempt_id,
                        s.vm_id,
                        s.state,
                        reason_json(listed.vms[s.vm_id], listed.started_at),
                        s.public_ip,
                        s.private_ip,
                    )
                    for row, s in findings.matched
                ]
            )
        )
    if findings.absent:
        ends = [(row.attempt_id, row.ran_until(last_seen_at, listed.started_at)) for row in findings.absent]
        writes.append(statements.absent(ends))
    if findings.empty:
        empty, gap = [row.attempt_id for row in findings.empty], runtime.timing.settle_gap
        writes.append(statements.seen_nothing(empty, listed.started_at, gap_seconds=gap))
    if writes:
        changed = (*(row for row, _ in (*findings.changed, *findings.matched)), *findings.absent, *findings.empty)
        _write_and_wake(runtime, {row.lease_id for row in changed}, writes)


def _write_and_wake(runtime: Runtime, about: Iterable[str], writes: Iterable[Executable | Bound[Executable]]) -> None:
    with runtime.database.begin() as connection:
        connection.execute(*locked(about))
        lease_ids = sorted({lease_id for write in writes for lease_id in execute(connection, write).scalars()})
        connection.execute(*statements.wake(lease_ids))
    runtime.nudge.set()


def _store_deadlines(runtime: Runtime, findings: Findings) -> None:
    """The lease's next step rewrites a deadline tag that differs from the last written one, regardless of its author.

    A later tag of a lease whose term is in doubt proves an extension that the database has lost. The term is restored.
    """
    restored = {row.lease_id for row, seen in findings.in_doubt if _restore_term(runtime, row, seen)}
    wrong = [(row, seen) for row, seen in findings.retagged if row.lease_id not in restored]
    for row, seen in wrong:
        log.warning("deadline tag differs", lease_id=row.lease_id, shown=seen.deadline, applied=row.deadline_applied)
    rewritten = [(row.lease_id, row.deadline_applied, seen.deadline) for row, seen in wrong if row.deadline_applied]
    read = {row.lease_id for row, _ in findings.in_doubt}
    writes: list[Executable | Bound[Executable]] = [brakes.terms_read(read)] if read else []
    if rewritten:
        writes.append(statements.retagged(rewritten))
    if writes:
        _write_and_wake(runtime, {*read, *(row.lease_id for row, _ in wrong)}, writes)


def _restore_term(runtime: Runtime, row: Row, seen: ListedVm) -> bool:
    if seen.deadline is None:
        return False
    expires_at = seen.deadline - timedelta(seconds=runtime.timing.deadline_grace)
    event = NewEvent(LeaseExtended(expires_at=expires_at))
    values = {"expires_at": expires_at, "deadline_applied": seen.deadline}
    guards = [WANTED, brakes.MAY_RESTORE_TERM]
    restored = write(row.lease_id, event, where=guards, bindings={"promised": expires_at}, values=values)
    if runtime.database.first(restored) is None:
        return False
    log.warning("term restored from the deadline tag", lease_id=row.lease_id, expires_at=expires_at)
    return True


def _store_notices(runtime: Runtime, rows: Iterable[Row], interruptions: Iterable[Interruption]) -> None:
    """Shows each announced interruption on its lease, once."""
    notices = {interruption.vm_id: interruption for interruption in interruptions}
    for row in rows:
        notice = notices.get(row.instance_id or "")
        if notice is not None and not row.lease_ended:
            _notice(runtime, row.lease_id, notice)


def _notice(runtime: Runtime, lease_id: LeaseId, notice: Interruption) -> None:
    data = LeaseInterruptionNotice(
        notice_at=notice.notice_at, deadline_at=notice.deadline_at or None, action=notice.action
    )
    event, values = NewEvent(data), {"interruption": data.as_json(), **WAKE}
    runtime.database.run(write(lease_id, event, where=[statements.NO_NOTICE_YET], values=values))
