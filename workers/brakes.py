"""Brakes that keep a mistaken view of the world from ending real VMs: see docs/operations.md.

The sticky hold stops every lease where it is (no launch, expiry, kill or close) until an operator resumes. It is
set when the database is another one than before, or older than the clouds' tags say.
"""

from collections.abc import Iterable, Sequence

import structlog

from app.db import fleet, safety
from app.domain.safety import is_from_the_future, too_many
from workers.database import Database

log = structlog.get_logger(__name__)

CONFIRMING_CYCLES = 3
"""So many cycles in a row must show the same mass loss before it is believed."""

VANISHED = "vanished"
ROWLESS = "rowless"


class FirstListings:
    """Which accounts and regions have been listed completely since this process started.

    A worker that comes up beside a stale or foreign database must not launch before observation has spoken.
    """

    def __init__(self, database: Database) -> None:
        self._database = database
        self._started_at = database.all(safety.now())[0].now
        self._done: set[tuple[str, str]] = set()

    def done(self, account: str, region: str) -> bool:
        """True from the first complete listing on that began after the start of this process."""
        place = (account, region)
        if place not in self._done and self._database.first(safety.listed_since(account, region, self._started_at)):
            self._done.add(place)
        return place in self._done


def check_cluster(database: Database) -> None:
    """Compares the Postgres cluster with the one stored; another one, or another timeline, sets the hold."""
    row = database.all(safety.cluster())[0]
    if row.stored_identifier is None:
        database.run(safety.remember_cluster())
    elif (row.stored_identifier, row.stored_timeline) != (row.identifier, row.timeline):
        set_hold(
            database,
            "the database runs in another PostgreSQL cluster or timeline than before (a restore, a failover or a copy): "
            "compare the orphans with the leases, then `gpulease ops adopt` and `gpulease ops resume`",
        )


def check_tags(database: Database, keys: Sequence[tuple[str, int]]) -> None:
    """`keys`: (lease id, attempt n) that VMs of ours name and the database does not know.

    One that is newer than everything in the database was made by a later state of it: the hold is set.
    """
    if not keys:
        return
    known = {row.id: row.attempts_count for row in database.all(safety.attempts_of([key[0] for key in keys]))}
    newest = database.all(safety.newest_lease())[0].id
    future = [key for key in keys if is_from_the_future(key, known, newest)]
    if future:
        names = ", ".join(sorted({lease_id for lease_id, _ in future})[:3])
        set_hold(
            database,
            f"{len(future)} VMs name leases or attempts newer than this database (such as {names}): it was restored from "
            "an older state, or is a copy; compare the orphans with the leases, then `gpulease ops adopt` and "
            "`gpulease ops resume`",
        )


def set_hold(database: Database, reason: str) -> None:
    """Sets the hold once; it stays until an operator resumes."""
    if database.run(safety.set_hold(reason)).rowcount:
        log.error("hold set", reason=reason)


def mass_loss(database: Database, account: str, region: str, counts: Iterable[tuple[str, int, int]]) -> frozenset[str]:
    """Judges the losses of a cycle. `counts`: (kind, lost, live), kind vanished or rowless.

    Answers the kinds that may not be acted on: too many at once, and not yet seen three cycles in a row.
    """
    braked = set()
    for kind, lost, live in counts:
        many = too_many(lost, live)
        cycles: int = database.all(safety.count_cycle(account, region, kind, many=many))[0].cycles
        if many and cycles < CONFIRMING_CYCLES:
            braked.add(kind)
            log.error(
                "mass loss braked", account=account, region=region, kind=kind, lost=lost, live=live, cycles=cycles
            )
            message = f"{lost} VMs {kind} at once ({live} live): nothing is closed or ended before {CONFIRMING_CYCLES} cycles agree"
            error = {"class": "MassLoss", "code": kind, "message": message}
            database.run(fleet.region_failed(account, region, error))
    return frozenset(braked)
