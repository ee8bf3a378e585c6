"""New leases for ranks of a group whose leases have ended."""

from collections.abc import Sequence
from datetime import timedelta
from decimal import Decimal
from typing import Any

from sqlalchemy import Connection
from sqlalchemy.exc import IntegrityError

from app.db.groups.members import NewMembers, insert_members, member_name, template
from app.db.tenancy import quotas
from app.db.tenancy.quotas import NewCommitment
from app.domain.groups.groups import GroupFacts
from app.domain.reasons import Reason, ReasonCode

_LIVE_NAME = "ix_lease_live_name"


class NoRoomError(Exception):
    """The tenant has no room for the new leases. Nothing is stored."""

    def __init__(self, message: str, code: ReasonCode = ReasonCode.GROUP_MEMBER_LOST) -> None:
        super().__init__(message)
        self.reason = Reason(code, message)


class BudgetsChangedError(Exception):
    """The period of a budget has ended (`due`), or the set of budgets has changed. Nothing is stored.

    The caller rolls back, calls `commitments.roll` in a transaction of its own where one is due, and repeats the step.
    """

    def __init__(self, *, due: bool) -> None:
        super().__init__("the period of a budget has ended" if due else "the set of budgets has changed")
        self.due = due


def add_members(connection: Connection, group: GroupFacts, ranks: Sequence[int]) -> None:
    """Creates a lease for each rank, with the terms of the others and in the group's pool, all or none.

    The caller rolls back when this raises NoRoomError or BudgetsChangedError.
    """
    terms = connection.execute(*template(group.id)).one()
    if terms.ttl <= timedelta(0):
        raise NoRoomError("lost members are not replaced: the term of the group has ended")
    claims = _reserve(connection, group, terms, len(ranks))
    new = NewMembers(
        tenant_id=group.tenant_id,
        group_id=group.id,
        names={rank: member_name(group.name, rank) for rank in ranks},
        request=terms.request,
        labels=terms.labels,
        on_interruption=terms.on_interruption,
        minimum=terms.minimum_claim,
        claims=claims,
        minimum_rate=terms.minimum_rate,
        estimated_price_per_hour=terms.estimated_price_per_hour,
        ttl=terms.ttl,
        wait=timedelta(seconds=terms.request["wait_seconds"]),
        expires_at=terms.expires_at,
        max_cost=terms.max_cost,
        key_id=terms.key_id,
        expiry_warnings=terms.expiry_warnings,
        startup_script=terms.startup_script,
        pool=group.pool,
    )
    try:
        added = connection.execute(*insert_members(new)).all()
    except IntegrityError as error:
        if _LIVE_NAME in str(error.orig):
            raise NoRoomError("lost members are not replaced: another lease has the name of one") from None
        raise
    if not added:
        raise NoRoomError("lost members are not replaced: the tenant is suspended")


def _reserve(connection: Connection, group: GroupFacts, terms: Any, members: int) -> dict[str, Decimal]:
    """Reserves quota and budgets for all. Returns what each lease claims."""
    minimum = {resource: Decimal(amount) for resource, amount in terms.minimum_claim.items()}
    about = NewCommitment(
        rate=terms.minimum_rate, ttl=terms.ttl, max_cost=terms.max_cost, key_id=terms.key_id, labels=terms.labels
    )
    room = connection.execute(quotas.admit(group.tenant_id, minimum, about, members=members)).one()
    if room.outdated or room.due:
        raise BudgetsChangedError(due=room.due)
    if not room.fits:
        what = "a budget" if room.over_budget else "the quota"
        code = ReasonCode.BUDGET_EXCEEDED if room.over_budget else ReasonCode.QUOTA_EXCEEDED
        raise NoRoomError(f"lost members are not replaced: {what} has no room for {members} of them", code)
    return {**minimum, **dict(zip(room.budgets, room.budget_amounts, strict=True))}
