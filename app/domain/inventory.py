"""The two-sided comparison of one complete listing of an account and region with the database.

The cloud is listed first. The database is read second, ended leases included, so every VM created before the listing
has its row by then. `compare` decides only what rows prove. It returns the rest as questions (`absent`, `lost`,
`copied`) that its callers answer.

A VM is *genuine* when the launch that its tags name created it. The cloud keeps the launch token, or the VM name
derived from it; copying the tags copies neither. A genuine VM without a row proves that the database has lost rows.
"""

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from app.domain.billing import ran_until
from app.domain.ids import AttemptId, LeaseId
from app.domain.leases import AttemptState, VmState
from app.domain.tokens import is_genuine, is_launch_identity

Key = tuple[str, int]
"""(lease id, attempt n), as a VM's tags name them."""

TokenOf = Callable[[LeaseId, int], str]
"""The launch token of an attempt of this installation."""

ALIVE = frozenset({VmState.QUEUED, VmState.PENDING, VmState.RUNNING, VmState.STOPPED})
"""States in which a VM costs money and is not being terminated."""

_MAY_BE_SENT = frozenset({AttemptState.PLANNED, AttemptState.SENT, AttemptState.SETTLING})
"""A genuine VM of an attempt in such a state is the attempt's VM.

With `planned` the row is older than the VM: the database was restored from an earlier state.
"""

EMPTY_LISTINGS = 2
"""How many complete listings without a VM the proof needs that an attempt created nothing."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchSlot:
    """The slot of a launch batch that a VM names. `token`: of the batch. `is_known`: the database has the batch.

    `key`: of the attempt that has the slot; None: no attempt has it. `is_labelled`: the VM has tags of its own, besides
    those that all VMs of the batch have.
    """

    token: str
    is_known: bool
    key: Key | None
    is_labelled: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class ListedVm:
    """A listed VM, reduced to what the comparison needs. `key` is None when the VM names no attempt.

    `launch_identity`: as in `workers.providers.types.Vm`. `deadline`: the VM's tagged deadline, None without one.
    `batch`: what the VM names of a launch batch; None: it belongs to no batch.
    """

    vm_id: str
    zone: str
    state: VmState
    key: Key | None
    launch_identity: str | None = None
    deadline: datetime | None = None
    public_ip: str | None = None
    private_ip: str | None = None
    batch: BatchSlot | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """An attempt as stored in the database.

    `deadline_applied`: the deadline that was last written to the VM's tags. `term_in_doubt`: as in `Lease`.
    """

    attempt_id: AttemptId
    lease_id: LeaseId
    tenant_id: str
    n: int
    state: AttemptState
    zone: str
    lease_ended: bool
    market: str
    terminate_sent_at: datetime | None
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
        """The key in the tags of the attempt's VM."""
        return (self.lease_id, self.n)

    @property
    def ending(self) -> bool:
        """Whether gpulease has requested the termination of its VM."""
        return self.terminate_sent_at is not None

    def ran_until(self, seen_at: datetime | None, looked_at: datetime) -> datetime | None:
        """Until when its VM counts as running that a listing of `looked_at` shows to be gone: see `billing.ran_until`."""
        return ran_until(
            seen_at,
            deadline=self.deadline_applied,
            term_in_doubt=self.term_in_doubt,
            market=self.market,
            terminate_sent_at=self.terminate_sent_at,
            looked_at=looked_at,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Listing:
    """One listing. `complete` is false when a page failed. `unreachable` zones were not listed."""

    started_at: datetime
    seen: tuple[ListedVm, ...]
    unreachable: frozenset[str] = frozenset()
    complete: bool = True


@dataclass(slots=True)
class Findings:
    """The differences between a listing and the rows. `doomed`, `lost` and `copied` hold VMs, the others attempts.

    `retagged`: VMs whose deadline tag differs from the one that was last written. `in_doubt`: VMs whose deadline tag
    may hold a term that the database has lost. `lost`: VMs that a launch of gpulease created and that have no row.
    A doomed VM without a row is in a slot of a batch that no attempt has.
    `copied`: VMs that no launch created; somebody copied the tags.
    """

    changed: list[tuple[Row, ListedVm]] = field(default_factory=list)
    retagged: list[tuple[Row, ListedVm]] = field(default_factory=list)
    in_doubt: list[tuple[Row, ListedVm]] = field(default_factory=list)
    matched: list[tuple[Row, ListedVm]] = field(default_factory=list)
    absent: list[Row] = field(default_factory=list)
    empty: list[Row] = field(default_factory=list)
    doomed: list[tuple[ListedVm, Row | None, str]] = field(default_factory=list)
    lost: list[ListedVm] = field(default_factory=list)
    copied: list[ListedVm] = field(default_factory=list)

    def unlabelled(self) -> list[str]:
        """The VMs of batches that this listing was the first to show, and that have no tags of their own."""
        return [seen.vm_id for _, seen in self.matched if seen.batch is not None and not seen.batch.is_labelled]

    def lost_rows(self, shown_before: Collection[str]) -> list[Key | None]:
        """The keys of VMs without a row, or with only a row from before their launch: the database has lost rows.

        Leaves out the lost VMs that were `shown_before`, and the VMs that have ended since.
        """
        unsent = [
            row.key
            for row, seen in self.matched
            if row.state is AttemptState.PLANNED and (seen.state in ALIVE or seen.vm_id not in shown_before)
        ]
        return [*(seen.key for seen in self.lost if seen.vm_id not in shown_before), *unsent]


def compare(listing: Listing, rows: Mapping[Key, Row], *, token_of: TokenOf, settle_gap: float) -> Findings:
    """Compares a listing with `rows`: all live attempts of the account and region, and those that listed VMs name."""
    findings = Findings()
    owners = {row.instance_id: row for row in rows.values() if row.state is AttemptState.KNOWN}
    for seen in listing.seen:
        owner = owners.get(seen.vm_id)
        if owner is not None:
            _compare_owned(findings, seen, owner)
        elif _is_genuine(seen, token_of):
            key = attempt_of(seen, token_of)
            _compare_genuine(findings, seen, rows.get(key) if key is not None else None)
        elif seen.state in ALIVE:
            _compare_unknown(findings, seen)
    if listing.complete:
        _unseen(findings, listing, rows.values(), settle_gap)
    return findings


def attempt_of(seen: ListedVm, token_of: TokenOf) -> Key | None:
    """The key of the attempt that launched a VM: of the attempt that has its slot, where its launch was that batch."""
    batch = seen.batch
    if batch is not None and batch.key is not None:
        own = token_of(LeaseId(batch.key[0]), batch.key[1])
        if is_genuine(seen.launch_identity, batch.token) or is_genuine(seen.launch_identity, own):
            return batch.key
    return seen.key


def _is_genuine(seen: ListedVm, token_of: TokenOf) -> bool:
    if seen.batch is not None and is_genuine(seen.launch_identity, seen.batch.token):
        return True
    key = attempt_of(seen, token_of)
    return key is not None and is_genuine(seen.launch_identity, token_of(LeaseId(key[0]), key[1]))


def _compare_owned(findings: Findings, seen: ListedVm, row: Row) -> None:
    """Compares a VM that belongs to the attempt by its id, whatever the VM's tags are now."""
    if _differs(row, seen):
        findings.changed.append((row, seen))
    _compare_deadline(findings, seen, row)


def _compare_genuine(findings: Findings, seen: ListedVm, row: Row | None) -> None:
    if row is not None and row.state in _MAY_BE_SENT:
        findings.matched.append((row, seen))
        _compare_deadline(findings, seen, row)
    elif seen.state not in ALIVE:
        return
    elif row is None:
        _compare_unknown(findings, seen)
    else:
        cause = "ended_lease" if row.lease_ended else "other_attempt"
        findings.doomed.append((seen, row, cause))


def _compare_unknown(findings: Findings, seen: ListedVm) -> None:
    """Judges a VM without a row. A known batch without an attempt in the VM's slot proves that no lease owns the VM."""
    if not is_launch_identity(seen.launch_identity):
        findings.copied.append(seen)
    elif seen.batch is not None and seen.batch.is_known and seen.batch.key is None and seen.key is None:
        findings.doomed.append((seen, None, "other_attempt"))
    else:
        findings.lost.append(seen)


def _compare_deadline(findings: Findings, seen: ListedVm, row: Row) -> None:
    """Tags hold whole seconds. While the last write is unknown (`deadline_applied` None), the writing step is due."""
    if seen.state not in ALIVE:
        return
    if row.term_in_doubt:
        findings.in_doubt.append((row, seen))
    if row.deadline_applied is None or _is_of_batch(seen, row.deadline_applied):
        return
    if seen.deadline != row.deadline_applied.replace(microsecond=0):
        findings.retagged.append((row, seen))


def _is_of_batch(seen: ListedVm, applied: datetime) -> bool:
    """Whether the deadline is still the latest of the VM's batch. Then the tags of the VM's own are still to come."""
    unlabelled = seen.batch is not None and not seen.batch.is_labelled
    return unlabelled and seen.deadline is not None and seen.deadline >= applied.replace(microsecond=0)


def _differs(row: Row, seen: ListedVm) -> bool:
    """An address that the listing leaves out is no difference: the stored address stays."""
    addresses = ((row.public_ip, seen.public_ip), (row.private_ip, seen.private_ip))
    moved = any(listed is not None and listed != known for known, listed in addresses)
    return (moved or row.vm_state is not seen.state) and row.vm_state is not VmState.GONE


def _unseen(findings: Findings, listing: Listing, rows: Iterable[Row], settle_gap: float) -> None:
    listed = {seen.vm_id for seen in listing.seen}
    matched = {row.key for row, _ in findings.matched}
    for row in rows:
        if row.zone in listing.unreachable:
            continue
        if row.state is AttemptState.KNOWN and row.instance_id not in listed and _is_absent(row, listing):
            findings.absent.append(row)
        elif (
            row.state is AttemptState.SETTLING and row.key not in matched and _counts_as_empty(row, listing, settle_gap)
        ):
            findings.empty.append(row)


def _is_absent(row: Row, listing: Listing) -> bool:
    newer = row.known_at is None or row.known_at >= listing.started_at
    return not newer and row.vm_state not in (VmState.GONE, VmState.ABSENT)


def _counts_as_empty(row: Row, listing: Listing, settle_gap: float) -> bool:
    if row.last_sent_at is None or row.last_sent_at >= listing.started_at or row.empty_listings >= EMPTY_LISTINGS:
        return False
    last = row.last_empty_listing_at
    return last is None or last + timedelta(seconds=settle_gap) <= listing.started_at
