"""Brakes that keep a faulty listing or database from ending real VMs: see docs/operations.md.

The sticky hold stops every lease in its state (no launch, expiry, kill or close) until an operator resumes. A worker
sets the hold when the database is a different one than before, or older than the clouds' tags.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

import structlog
from sqlalchemy import ColumnElement

from app.db.fleet import accounts
from app.db.operations import brakes
from app.db.schema import cluster
from app.domain.brakes import BrakeName
from app.domain.error_kinds import ErrorKind
from app.domain.mass_loss import CONFIRMING_CYCLES, mass_loss_of, too_many
from workers.runtime.database import WorkerDatabase

log = structlog.get_logger(__name__)


def log_brake(brake: BrakeName, **about: object) -> None:
    """The line about a brake that was set. Its end needs none."""
    log.error("brake set", brake=str(brake), **about)


def log_places_left(drained: Iterable[str], used: Iterable[Any], configured: Mapping[str, Collection[str]]) -> None:
    """Accounts that left the configuration now, and places in use whose region has left it. `configured`: regions by account."""
    for name in drained:
        log_brake(BrakeName.DRAINING, account=name)
    for place in used:
        if place.region not in configured.get(place.account, (place.region,)):
            log_brake(BrakeName.REGION_LEFT, account=place.account, region=place.region)


class FirstListings:
    """Which accounts and regions have been listed completely since this process started.

    A worker that starts with a stale or foreign database must not launch before the first complete listing.
    """

    def __init__(self, database: WorkerDatabase) -> None:
        self._database = database
        self.started_at: datetime = database.all(brakes.now())[0].now
        log.warning("brake set", brake=str(BrakeName.FIRST_LISTING))
        self._done: set[tuple[str, str]] = set()

    def done(self, account: str, region: str) -> bool:
        """Whether a complete listing has finished that began after the start of this process."""
        place = (account, region)
        if place not in self._done and self._database.first(brakes.is_listed_since(account, region, self.started_at)):
            self._done.add(place)
        return place in self._done

    def failed(self, account: str, region: str) -> bool:
        """Whether an inventory process has tried to list the region since this process started, and could not.

        While the listing is neither done nor failed, no inventory process runs or none has reached the region yet.
        """
        return self._database.first(brakes.has_failed_since(account, region, self.started_at)) is not None


HELD_PAUSE = timedelta(seconds=2)
"""While the installation is on hold no lease moves. Observation continues."""


def is_on_hold(database: WorkerDatabase, row: Any) -> bool:
    """Whether a hold stops what a loaded row is about. Loading also compares the cluster: nothing moves on an unknown one.

    The row has `hold` and `cluster_is_known`.
    """
    if not row.cluster_is_known:
        check_cluster(database)
    return row.hold is not None or not row.cluster_is_known


def check_cluster(database: WorkerDatabase) -> bool:
    """Compares the running PostgreSQL cluster and database with the stored ones. A different one sets the hold.

    A different timeline sets the hold too. False: the cluster is not the known one, and nothing may be created, ended
    or freed. A standby cannot store a hold; the result is False there too.
    """
    row = database.all(cluster.compare())[0]
    if row.is_known:
        if not row.stored:
            database.run(cluster.remember())
        return True
    if not row.is_standby:
        what = (
            "the database runs in another PostgreSQL cluster or timeline than before (a restore, a failover or a copy)"
            if row.is_same_database
            else "the rows come from a dump of another database (a restore or a copy)"
        )
        set_hold(
            database,
            f"{what}: compare the orphans with the leases, then `gpulease ops adopt` and `gpulease ops resume`",
            ~cluster.IS_KNOWN,  # an operator may have resumed since the comparison
        )
    return False


def hold_for_lost_rows(database: WorkerDatabase, keys: Sequence[tuple[str, int] | None]) -> None:
    """Sets the hold for VMs without a row. `keys`: (lease id, attempt n) of VMs that this installation has launched.

    A launch stores its row before it creates the VM. A VM without a row therefore proves that the database has lost
    rows.
    """
    if not keys:
        return
    names = ", ".join(sorted({key[0] for key in keys if key is not None})[:3]) or "leases that their tags do not name"
    set_hold(
        database,
        f"the database has lost the rows of {len(keys)} VMs that this installation launched (of {names}): it was restored "
        "from an older state, or is a copy. Compare the orphans with the leases, then run `gpulease ops adopt` and "
        "`gpulease ops resume`",
    )


def set_hold(database: WorkerDatabase, reason: str, *guards: ColumnElement[bool]) -> None:
    """Sets the hold once, if the guards hold, until an operator resumes. The term of every live lease is in doubt from then on."""
    with database.begin() as connection:
        newly_set = bool(connection.execute(brakes.set_hold(reason, *guards)).rowcount)
        if newly_set:
            connection.execute(brakes.doubt_terms())
    if newly_set:
        log_brake(BrakeName.HOLD, reason=reason)


@dataclass(frozen=True, slots=True)
class BrakeScope:
    """On what workers may not act in this cycle: lost VMs of these tenants, and VMs without a row."""

    tenants: frozenset[str] = frozenset()
    rowless: bool = False

    def __bool__(self) -> bool:
        return bool(self.tenants) or self.rowless


def mass_loss(
    database: WorkerDatabase,
    account: str,
    region: str,
    vanished: Mapping[str, int],
    live: Mapping[str, int],
    rowless: int,
) -> BrakeScope:
    """Checks the losses of a cycle. `vanished`, `live`: VMs of each tenant. `rowless`: VMs without a row.

    Workers may not act on too many losses at once before three consecutive cycles have shown them.
    """
    lost, there = sum(vanished.values()), sum(live.values())
    concerned = mass_loss_of(vanished, live)
    many_rowless = too_many(rowless, there)
    row = database.all(brakes.count_cycle(account, region, vanished=concerned, rowless=many_rowless))[0]
    tenants = frozenset(tenant for tenant, cycles in row.vanished.items() if cycles < CONFIRMING_CYCLES)
    braked = BrakeScope(tenants, many_rowless and row.rowless < CONFIRMING_CYCLES)
    for kind, is_braked, count in (
        (BrakeName.VANISHED, bool(tenants), lost),
        (BrakeName.ROWLESS, braked.rowless, rowless),
    ):
        if is_braked:
            log_brake(kind, account=account, region=region, lost=count, live=there)
            message = f"{count} VMs {kind} at once ({there} live): nothing is closed or ended before {CONFIRMING_CYCLES} cycles agree"
            error = {"class": ErrorKind.MASS_LOSS, "code": str(kind), "message": message}
            database.run(accounts.region_failed(account, region, error))
    return braked
