"""Bulk statements of observation: a cycle runs a constant number of them, regardless of the number of leases."""

from collections.abc import Iterable, Sequence
from datetime import datetime, timedelta
from decimal import Decimal
from functools import lru_cache
from typing import Any

from sqlalchemy import (
    ARRAY,
    Executable,
    Interval,
    Table,
    Text,
    Update,
    and_,
    any_,
    bindparam,
    func,
    or_,
    select,
    text,
    update,
)

from app.db.core.prepared import Bound, Shape, plain, setting, shape
from app.db.core.sql import AnySelect, Time
from app.db.schema.tables import account_region, attempt, lease
from app.domain.ids import AttemptId, LeaseId
from app.domain.inventory import Row
from app.domain.leases import AttemptState, VmState

_ROW = """
    SELECT a.id, a.lease_id, a.tenant_id, a.n, a.state, a.zone, l.state IN ('released', 'failed') AS lease_ended,
           a.market, a.terminate_sent_at, a.instance_id,
           a.vm_state, a.public_ip, a.private_ip, a.known_at, a.last_sent_at, a.empty_listings,
           a.last_empty_listing_at, l.deadline_applied, l.term_in_doubt
    FROM attempt a JOIN lease l ON l.id = a.lease_id
"""

LIVE_ROWS = text(
    _ROW + "WHERE a.account = :account AND a.region = :region AND a.state IN ('planned', 'sent', 'known', 'settling')"
)
"""Every attempt that may have a VM in the account and region."""

_NAMED_ROWS = text(
    _ROW
    + """
    JOIN unnest(CAST(:leases AS text[]), CAST(:ns AS int[])) AS k (lease_id, n) USING (lease_id, n)
    WHERE a.account = :account AND a.region = :region
    UNION ALL
    SELECT a.id, a.lease_id, a.tenant_id, a.n, 'dead', a.zone, true, a.market, a.ended_at, a.instance_id, 'gone', NULL, NULL, NULL, NULL, 0, NULL, NULL, FALSE
    FROM attempt_archive a
    JOIN unnest(CAST(:leases AS text[]), CAST(:ns AS int[])) AS k (lease_id, n) USING (lease_id, n)
    WHERE a.account = :account AND a.region = :region
    """
)


def named_rows(account: str, region: str, keys: Iterable[tuple[str, int]]) -> Bound[Executable]:
    """The attempts of this account and region that listed VMs name, including ended and purged attempts.

    Tags that were copied to another place name no attempt here.
    """
    keys = list(keys)
    return Bound(
        _NAMED_ROWS,
        {"account": account, "region": region, "leases": [key[0] for key in keys], "ns": [key[1] for key in keys]},
    )


def row_from(row: Any) -> Row:
    """The domain's view of a row of LIVE_ROWS or `named_rows`."""
    return Row(
        attempt_id=AttemptId(row.id),
        lease_id=LeaseId(row.lease_id),
        tenant_id=row.tenant_id,
        n=row.n,
        state=AttemptState(row.state),
        zone=row.zone,
        lease_ended=row.lease_ended,
        market=row.market,
        terminate_sent_at=row.terminate_sent_at,
        instance_id=row.instance_id,
        vm_state=VmState(row.vm_state) if row.vm_state is not None else None,
        public_ip=row.public_ip,
        private_ip=row.private_ip,
        known_at=row.known_at,
        last_sent_at=row.last_sent_at,
        empty_listings=row.empty_listings,
        last_empty_listing_at=row.last_empty_listing_at,
        deadline_applied=row.deadline_applied,
        term_in_doubt=row.term_in_doubt,
    )


_VMS_OF = text(
    """
    SELECT a.instance_id FROM attempt a
    JOIN unnest(CAST(:leases AS text[]), CAST(:ns AS int[])) AS k (lease_id, n) USING (lease_id, n)
    WHERE a.state = 'known'
    """
)


def vms_of(keys: Iterable[tuple[str, int]]) -> Bound[Executable]:
    """(instance_id) of the VMs of these attempts, in any account and region."""
    keys = list(keys)
    return Bound(_VMS_OF, {"leases": [key[0] for key in keys], "ns": [key[1] for key in keys]})


# Rows are locked in the order of their ids. Bulk statements of watch, inventory and other hosts that touch the same
# rows therefore never deadlock.
_LOCKED = """
    WITH locked AS MATERIALIZED (
        SELECT id FROM attempt WHERE id = ANY (CAST(:ids AS text[])) ORDER BY id FOR NO KEY UPDATE)
"""

# A listing that began after this observation did not show the VM. The observation only proves that the VM existed until
# then. Without this condition the next absence would get the time of that listing, as if the listing had shown the VM.
_OVERTAKEN = """
    a.vm_state = 'absent' AND o.vm_state NOT IN ('absent', 'gone') AND o.at < (
        SELECT r.last_listing_started_at FROM account_region r WHERE r.account = a.account AND r.region = a.region)
"""

_OBSERVED = text(
    _LOCKED
    + f"""
    UPDATE attempt a SET
        vm_state = CASE WHEN {_OVERTAKEN} THEN a.vm_state ELSE o.vm_state END,
        vm_state_at = CASE WHEN {_OVERTAKEN} THEN greatest(a.vm_state_at, o.at)
                           WHEN a.vm_state IS DISTINCT FROM o.vm_state THEN coalesce(o.at, now()) ELSE a.vm_state_at END,
        vm_reason = coalesce(o.reason, a.vm_reason),
        public_ip = coalesce(o.public_ip, a.public_ip), private_ip = coalesce(o.private_ip, a.private_ip),
        ready = a.ready OR o.ready, clean = a.clean OR o.clean
    FROM unnest(CAST(:ids AS text[]), CAST(:states AS text[]), CAST(:ats AS timestamptz[]), CAST(:reasons AS jsonb[]),
                CAST(:publics AS text[]), CAST(:privates AS text[]), CAST(:readies AS bool[]), CAST(:cleans AS bool[]))
         AS o (id, vm_state, at, reason, public_ip, private_ip, ready, clean)
    WHERE a.id = o.id AND a.id IN (SELECT id FROM locked) AND NOT (a.vm_state = 'gone' AND o.vm_state <> 'gone')
      AND NOT (o.vm_state IN ('pending', 'running') AND coalesce(o.at < a.vm_state_at, FALSE))
    RETURNING a.lease_id
    """
)


class ObservationBatch:
    """Columns of one bulk write of observations, filled row by row."""

    def __init__(self) -> None:
        self._columns: dict[str, list[Any]] = {
            name: [] for name in ("ids", "states", "ats", "reasons", "publics", "privates", "readies", "cleans")
        }

    def add(
        self,
        attempt_id: str,
        state: VmState,
        *,
        at: datetime | None = None,
        reason: str | None = None,
        addresses: tuple[str | None, str | None] = (None, None),
        ready: bool = False,
        clean: bool = False,
    ) -> None:
        """`at`: the provider's transition time, else now. `reason`: JSON {code, message, interrupted}.

        `addresses`: public and private; None where this observation reports none.
        """
        values = (attempt_id, str(state), at, reason, *addresses, ready, clean)
        for column, value in zip(self._columns.values(), values, strict=True):
            column.append(value)

    def __len__(self) -> int:
        return len(self._columns["ids"])

    @property
    def attempts(self) -> frozenset[str]:
        """The ids of the observed attempts."""
        return frozenset(self._columns["ids"])

    def statement(self) -> Bound[Executable]:
        """Writes all observations. Returns the ids of their leases. A VM that is gone stays gone.

        An observation of a live VM does not undo a later observation. A long listing ends after many watches, and a
        watch may receive its answer after the next listing.
        """
        return Bound(_OBSERVED, self._columns)


_REGION_HERE = (
    account_region.c.account == bindparam("here_account", type_=Text),
    account_region.c.region == bindparam("here_region", type_=Text),
)
_WATCHED = update(account_region).where(*_REGION_HERE).values(last_watched_at=bindparam("at", type_=Time))


def watched(account: str, region: str, at: datetime) -> Bound[Update]:
    """Records that a watch of the VMs in change began at `at`: their time-outs may be evaluated."""
    return Bound(_WATCHED, {"here_account": account, "here_region": region, "at": at})


_FOUND = text(
    _LOCKED
    + """
    UPDATE attempt a SET state = 'known', instance_id = f.instance_id, vm_state = f.vm_state, vm_state_at = now(),
        vm_reason = f.reason, public_ip = f.public_ip, private_ip = f.private_ip,
        known_at = coalesce(a.known_at, now()), retry_at = NULL, error = NULL
    FROM unnest(CAST(:ids AS text[]), CAST(:instances AS text[]), CAST(:states AS text[]), CAST(:reasons AS jsonb[]),
                CAST(:publics AS text[]), CAST(:privates AS text[]))
         AS f (id, instance_id, vm_state, reason, public_ip, private_ip)
    WHERE a.id = f.id AND a.id IN (SELECT id FROM locked) AND a.state IN ('planned', 'sent', 'settling')
    RETURNING a.lease_id
    """
)


_IDS = bindparam("ids", type_=ARRAY(Text))


def _in_order(table: Table) -> AnySelect:
    """The ids of the parameter `ids`, locked one after the other in ascending order: see _LOCKED."""
    locked = select(table.c.id).where(table.c.id == any_(_IDS)).order_by(table.c.id).with_for_update(key_share=True)
    return select(locked.cte("locked").c.id)


def record_found_vms(rows: Sequence[tuple[str, str, VmState, str | None, str | None, str | None]]) -> Bound[Executable]:
    """VMs of sends whose answer never came.

    Rows: (attempt id, instance id, state, reason as in `ObservationBatch.add`, public ip, private ip).
    """
    ids, instances, states, reasons, publics, privates = (list(column) for column in zip(*rows, strict=True))
    return Bound(
        _FOUND,
        {
            "ids": ids,
            "instances": instances,
            "states": [str(s) for s in states],
            "reasons": reasons,
            "publics": publics,
            "privates": privates,
        },
    )


_ABSENT = text(
    _LOCKED
    + """
    UPDATE attempt a SET vm_state = 'absent', vm_state_at = greatest(o.at, a.known_at), retry_at = NULL
    FROM unnest(CAST(:ids AS text[]), CAST(:ats AS timestamptz[])) AS o (id, at)
    WHERE a.id = o.id AND a.id IN (SELECT id FROM locked) AND a.state = 'known' AND a.vm_state NOT IN ('gone', 'absent')
    RETURNING a.lease_id
    """
)


def absent(rows: Sequence[tuple[str, datetime | None]]) -> Bound[Executable]:
    """Marks VMs that a complete listing does not show. Rows: (attempt id, until when the VM counts as running)."""
    ids, ats = (list(column) for column in zip(*rows, strict=True))
    return Bound(_ABSENT, {"ids": ids, "ats": ats})


_STARTED = bindparam("started_at", type_=Time)
_LAST_EMPTY = attempt.c.last_empty_listing_at
_SEEN_NOTHING = (
    update(attempt)
    .where(
        attempt.c.id.in_(_in_order(attempt)),
        attempt.c.state == "settling",
        or_(_LAST_EMPTY.is_(None), _STARTED - bindparam("gap", type_=Interval) >= _LAST_EMPTY),
    )
    .values(empty_listings=attempt.c.empty_listings + 1, last_empty_listing_at=_STARTED, retry_at=None)
    .returning(attempt.c.lease_id)
)


def seen_nothing(attempt_ids: Sequence[str], listing_started_at: datetime, *, gap_seconds: float) -> Bound[Update]:
    """Counts one more complete listing that does not show what a settling attempt may have created.

    It counts if it began `gap_seconds` after the last counted listing: another process may have counted one meanwhile.
    """
    gap = timedelta(seconds=gap_seconds)
    return Bound(_SEEN_NOTHING, {"ids": list(attempt_ids), "started_at": listing_started_at, "gap": gap})


_RETAGGED = text(
    """
    UPDATE lease l SET deadline_applied = t.shown
    FROM unnest(CAST(:ids AS text[]), CAST(:applied AS timestamptz[]), CAST(:shown AS timestamptz[])) AS t (id, applied, shown)
    WHERE l.id = t.id AND l.deadline_applied = t.applied AND l.desired = 'run'
    RETURNING l.id
    """
)


def retagged(rows: Sequence[tuple[str, datetime, datetime | None]]) -> Bound[Executable]:
    """Corrects deadlines to those that the tags of VMs show. Returns the lease ids.

    Rows: (lease id, deadline last written, deadline shown). A worker that has written the tag since the comparison
    takes precedence: the statement leaves its lease unchanged.
    """
    ids, applied, tagged = (list(column) for column in zip(*rows, strict=True))
    return Bound(_RETAGGED, {"ids": ids, "applied": applied, "shown": tagged})


NO_NOTICE_YET = and_(lease.c.interruption.is_(None), lease.c.ended_at.is_(None))
"""Guard: an interruption is recorded once, and only while the lease has not ended."""


_WAKE = (
    update(lease)
    .where(lease.c.id.in_(_in_order(lease)), lease.c.ended_at.is_(None))
    .values(next_due=func.now(), wake_count=lease.c.wake_count + 1)
)


def wake(lease_ids: Iterable[str]) -> Bound[Update]:
    """Makes leases due now, even when a worker is just about to postpone them."""
    return Bound(_WAKE, {"ids": list(lease_ids)})


_REGION_ROWS = select(
    account_region.c.region,
    account_region.c.last_complete_listing_at,
    account_region.c.cycles,
    account_region.c.last_error,
    func.now().label("now"),
).where(
    account_region.c.account == bindparam("here_account", type_=Text),
    account_region.c.region == any_(bindparam("regions", type_=ARRAY(Text))),
)


def region_rows(account: str, regions: Iterable[str]) -> Bound[AnySelect]:
    """(region, last_complete_listing_at, cycles, last_error, now) of regions of an account.

    All rows have the same `now`.
    """
    return Bound(_REGION_ROWS, {"here_account": account, "regions": sorted(regions)})


_ONE_MORE_CYCLE = account_region.c.cycles + 1


@lru_cache(maxsize=4)
def _listed(columns: Shape) -> Update:
    return update(account_region).where(*_REGION_HERE).values(**setting(account_region, columns))


def listed(
    account: str,
    region: str,
    *,
    started_at: datetime,
    count: int,
    cost: tuple[int, Decimal],
    all_well: bool,
    all_zones: bool,
) -> Bound[Update]:
    """Records a complete listing: every unchanged lease of the region counts as observed when the listing began.

    This does not apply to an untrusted listing (`all_well` false). Nor does it apply to a listing that does not cover a
    zone with attempts (`all_zones` false). `cost`: calls and seconds of the whole listing, including other regions.
    """
    values: dict[str, Any] = {
        "last_listing_started_at": started_at,
        "listed": count,
        "listing_calls": cost[0],
        "listing_seconds": cost[1],
        "cycles": _ONE_MORE_CYCLE,
    }
    if all_well:
        values["last_error"] = None
    if all_well and all_zones:
        values["last_complete_listing_at"] = started_at
    return Bound(_listed(shape(values)), {"here_account": account, "here_region": region, **plain(values)})
