"""The two-sided comparison of one complete listing of an account and region with the database.

The cloud is listed first, the database is read second, ended leases included: whatever was created before the
listing has its row by then. `compare` decides nothing that cannot be proven from rows; the rest is a question
(`absent`, `lost`, `copied`) that others answer.

A VM is *genuine* when the launch that its tags name has made it: the cloud keeps the launch token, or the name derived
from it, and copies neither with the tags. A genuine VM without a row proves that the database has lost rows.
"""

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from app.domain.ids import AttemptId, LeaseId
from app.domain.leases import AttemptState, VmState
from app.domain.tokens import is_genuine, is_launch_identity

Key = tuple[str, int]
"""(lease id, attempt n), as a VM's tags name them."""

TokenOf = Callable[[LeaseId, int], str]
"""The launch token of an attempt of this installation."""

ALIVE = frozenset({VmState.PENDING, VmState.RUNNING, VmState.STOPPED})
"""States in which a VM costs money and is not on its way out."""


_MAY_BE_SENT = frozenset({AttemptState.PLANNED, AttemptState.SENT, AttemptState.SETTLING})
"""A genuine VM of such an attempt is its VM. With `planned` the row is older than the VM: the database went back in time."""

EMPTY_LISTINGS = 2
"""How many complete listings that show nothing belong to the proof that an attempt created nothing."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Seen:
    """A listed VM, reduced to what the comparison needs. `key` is None when its tags name no attempt.

    `launch_identity`: as `workers.providers.types.Vm` has it. `deadline`: its tagged deadline, None when there is none.
    """

    vm_id: str
    zone: str
    state: VmState
    key: Key | None
    launch_identity: str | None = None
    deadline: datetime | None = None
    public_ip: str | None = None
    private_ip: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """An attempt as the database has it: whether its lease has ended, and whether we asked for its VM's end.

    `deadline_applied`: the deadline that was last written to the VM's tags. `term_in_doubt`: as `Lease` has it.
    """

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
    deadline_applied: datetime | None
    term_in_doubt: bool = False

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
    """What the comparison found. `doomed`, `lost` and `copied` name VMs, the others attempts.

    `retagged`: VMs of attempts whose deadline tag is not the one that was last written. `in_doubt`: VMs of attempts whose
    tag may tell of a term that the database has lost. `lost`: VMs that a launch of
    gpulease has made, and of which no row tells. `copied`: VMs that no launch has made; somebody copied the tags.
    """

    changed: list[tuple[Row, Seen]] = field(default_factory=list)
    retagged: list[tuple[Row, Seen]] = field(default_factory=list)
    in_doubt: list[tuple[Row, Seen]] = field(default_factory=list)
    found: list[tuple[Row, Seen]] = field(default_factory=list)
    absent: list[Row] = field(default_factory=list)
    empty: list[Row] = field(default_factory=list)
    doomed: list[tuple[Seen, Row, str]] = field(default_factory=list)
    lost: list[Seen] = field(default_factory=list)
    copied: list[Seen] = field(default_factory=list)

    def lost_rows(self, shown_before: Collection[str]) -> list[Key | None]:
        """What VMs name of which no row tells, or only a row from before their launch: the database has lost rows.

        Without the lost VMs that were `shown_before`.
        """
        unsent = [row.key for row, _ in self.found if row.state is AttemptState.PLANNED]
        return [*(seen.key for seen in self.lost if seen.vm_id not in shown_before), *unsent]


def compare(listing: Listing, rows: Mapping[Key, Row], *, token_of: TokenOf, settle_gap: float) -> Findings:
    """`rows`: every live attempt of the account and region, and every attempt that a listed VM names."""
    findings = Findings()
    owners = {row.instance_id: row for row in rows.values() if row.state is AttemptState.KNOWN}
    for seen in listing.seen:
        owner = owners.get(seen.vm_id)
        if owner is not None:
            _compare_owned(findings, seen, owner)
        elif _is_genuine(seen, token_of):
            _compare_genuine(findings, seen, rows.get(seen.key) if seen.key is not None else None)
        elif seen.state in ALIVE:
            (findings.lost if is_launch_identity(seen.launch_identity) else findings.copied).append(seen)
    if listing.complete:
        _unseen(findings, listing, rows.values(), settle_gap)
    return findings


def _is_genuine(seen: Seen, token_of: TokenOf) -> bool:
    if seen.key is None:
        return False
    lease_id, n = seen.key
    return is_genuine(seen.launch_identity, token_of(LeaseId(lease_id), n))


def _compare_owned(findings: Findings, seen: Seen, row: Row) -> None:
    """The VM is the attempt's by its id, whatever its tags say by now."""
    if _differs(row, seen):
        findings.changed.append((row, seen))
    _compare_deadline(findings, seen, row)


def _compare_genuine(findings: Findings, seen: Seen, row: Row | None) -> None:
    if row is not None and row.state in _MAY_BE_SENT:
        findings.found.append((row, seen))
        _compare_deadline(findings, seen, row)
    elif seen.state not in ALIVE:
        return
    elif row is None:
        findings.lost.append(seen)
    else:
        cause = "ended_lease" if row.lease_ended else "other_attempt"
        findings.doomed.append((seen, row, cause))


def _compare_deadline(findings: Findings, seen: Seen, row: Row) -> None:
    """Tags hold whole seconds. Where it is not known what was written, the step that writes it is due anyway."""
    if seen.state not in ALIVE:
        return
    if row.term_in_doubt:
        findings.in_doubt.append((row, seen))
    if row.deadline_applied is not None and seen.deadline != row.deadline_applied.replace(microsecond=0):
        findings.retagged.append((row, seen))


def _differs(row: Row, seen: Seen) -> bool:
    """An address that the listing does not tell is no difference: a known one is kept."""
    addresses = ((row.public_ip, seen.public_ip), (row.private_ip, seen.private_ip))
    moved = any(shown is not None and shown != known for known, shown in addresses)
    return (moved or row.vm_state is not seen.state) and row.vm_state is not VmState.GONE


def _unseen(findings: Findings, listing: Listing, rows: Iterable[Row], settle_gap: float) -> None:
    listed = {seen.vm_id for seen in listing.seen}
    found = {row.key for row, _ in findings.found}
    for row in rows:
        if row.zone in listing.unreachable:
            continue
        if row.state is AttemptState.KNOWN and row.instance_id not in listed and _is_absent(row, listing):
            findings.absent.append(row)
        elif row.state is AttemptState.SETTLING and row.key not in found and _counts_as_empty(row, listing, settle_gap):
            findings.empty.append(row)


def _is_absent(row: Row, listing: Listing) -> bool:
    newer = row.known_at is None or row.known_at >= listing.started_at
    return not newer and row.vm_state not in (VmState.GONE, VmState.ABSENT)


def _counts_as_empty(row: Row, listing: Listing, settle_gap: float) -> bool:
    if row.last_sent_at is None or row.last_sent_at >= listing.started_at or row.empty_listings >= EMPTY_LISTINGS:
        return False
    last = row.last_empty_listing_at
    return last is None or last + timedelta(seconds=settle_gap) <= listing.started_at
