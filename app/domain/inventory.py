"""The two-sided comparison of one complete listing of an account and region with the database.

The cloud is listed first, the database is read second, ended leases included: whatever was created before the
listing has its row by then. `compare` decides nothing that cannot be proven from rows; the rest is a question
(`absent`, `rowless`) that others answer.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from app.domain.ids import AttemptId, LeaseId
from app.domain.leases import AttemptState, VmState

Key = tuple[str, int]
"""(lease id, attempt n), as a VM's tags name them."""

ALIVE = frozenset({VmState.PENDING, VmState.RUNNING, VmState.STOPPED})
"""States in which a VM costs money and is not on its way out."""


EMPTY_LISTINGS = 2
"""How many complete listings that show nothing belong to the proof that an attempt created nothing."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Seen:
    """A listed VM, reduced to what the comparison needs. `key` is None when its tags name no lease."""

    vm_id: str
    zone: str
    state: VmState
    key: Key | None
    token: str | None = None
    public_ip: str | None = None
    private_ip: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """An attempt as the database has it: whether its lease has ended, and whether we asked for its VM's end."""

    attempt_id: AttemptId
    lease_id: LeaseId
    n: int
    state: AttemptState
    zone: str
    lease_ended: bool
    ending: bool
    instance_id: str | None
    vm_state: VmState | None
    public_ip: str | None
    private_ip: str | None
    known_at: datetime | None
    last_sent_at: datetime | None
    empty_listings: int
    last_empty_listing_at: datetime | None

    @property
    def key(self) -> Key:
        """As the tags of its VM name it."""
        return (self.lease_id, self.n)


@dataclass(frozen=True, slots=True, kw_only=True)
class Listing:
    """One listing. `complete` is false when a page failed; `unreachable` zones were not looked at."""

    started_at: datetime
    seen: tuple[Seen, ...]
    unreachable: frozenset[str] = frozenset()
    complete: bool = True


@dataclass(slots=True)
class Findings:
    """What the comparison found. `doomed` and `rowless` name VMs, the others attempts."""

    changed: list[tuple[Row, Seen]] = field(default_factory=list)
    found: list[tuple[Row, Seen]] = field(default_factory=list)
    absent: list[Row] = field(default_factory=list)
    empty: list[Row] = field(default_factory=list)
    doomed: list[tuple[Seen, Row, str]] = field(default_factory=list)
    rowless: list[Seen] = field(default_factory=list)


def compare(listing: Listing, rows: Mapping[Key, Row], *, settle_gap: float) -> Findings:
    """`rows`: every live attempt of the account and region, and every attempt that a listed VM names."""
    findings = Findings()
    for seen in listing.seen:
        row = rows.get(seen.key) if seen.key is not None else None
        if row is None:
            if seen.state in ALIVE:
                findings.rowless.append(seen)
        else:
            _compare_one(findings, seen, row)
    if listing.complete:
        _unseen(findings, listing, rows.values(), settle_gap)
    return findings


def _compare_one(findings: Findings, seen: Seen, row: Row) -> None:
    if row.state in (AttemptState.SENT, AttemptState.SETTLING):
        findings.found.append((row, seen))
    elif row.state is AttemptState.KNOWN and row.instance_id == seen.vm_id:
        if _differs(row, seen):
            findings.changed.append((row, seen))
    elif row.state is not AttemptState.PLANNED and seen.state in ALIVE:
        cause = "ended_lease" if row.lease_ended else "other_attempt"
        findings.doomed.append((seen, row, cause))


def _differs(row: Row, seen: Seen) -> bool:
    """An address that the listing does not tell is no difference: a known one is kept."""
    addresses = ((row.public_ip, seen.public_ip), (row.private_ip, seen.private_ip))
    moved = any(shown is not None and shown != known for known, shown in addresses)
    return (moved or row.vm_state is not seen.state) and row.vm_state is not VmState.GONE


def _unseen(findings: Findings, listing: Listing, rows: Iterable[Row], settle_gap: float) -> None:
    listed = {seen.vm_id for seen in listing.seen}
    keys = {seen.key for seen in listing.seen}
    for row in rows:
        if row.zone in listing.unreachable:
            continue
        if row.state is AttemptState.KNOWN and row.instance_id not in listed and _is_absent(row, listing):
            findings.absent.append(row)
        elif row.state is AttemptState.SETTLING and row.key not in keys and _counts_as_empty(row, listing, settle_gap):
            findings.empty.append(row)


def _is_absent(row: Row, listing: Listing) -> bool:
    newer = row.known_at is None or row.known_at >= listing.started_at
    return not newer and row.vm_state not in (VmState.GONE, VmState.ABSENT)


def _counts_as_empty(row: Row, listing: Listing, settle_gap: float) -> bool:
    if row.last_sent_at is None or row.last_sent_at >= listing.started_at or row.empty_listings >= EMPTY_LISTINGS:
        return False
    last = row.last_empty_listing_at
    return last is None or last + timedelta(seconds=settle_gap) <= listing.started_at
