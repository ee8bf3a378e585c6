"""Reading groups and their members for callers."""

from sqlalchemy import ColumnElement, and_, func, literal_column, not_, or_, select, true

from app.db.core.sql import AnySelect
from app.db.core.tenant_scope import owned
from app.db.leases.billing import accrued, cost
from app.db.schema.tables import lease, lease_group
from app.domain.leases import TERMINAL, Desired, LeaseState
from app.domain.list_filters import GroupFilter
from app.domain.reasons import PROVIDER_MESSAGE


def _literal(text: str) -> ColumnElement[str]:
    return literal_column(f"'{text}'")


_IS_LIVE = lease.c.ended_at.is_(None)
_PRICE = lease.c.estimated_price_per_hour
_SUMS = (
    select(
        func.count().filter(lease.c.state == _literal(LeaseState.ACTIVE)).label("ready"),
        func.max(lease.c.expires_at).label("expires_at"),
        func.coalesce(func.sum(accrued(lease, func.now())), literal_column("0")).label("accrued"),
        func.sum(lease.c.rate_per_hour).label("rate_per_hour"),
        func.sum(lease.c.disk_rate_per_hour).label("disk_rate_per_hour"),
        func.sum(lease.c.address_rate_per_hour).label("address_rate_per_hour"),
        func.sum(_PRICE).filter(_IS_LIVE).label("estimated_price_per_hour"),
        func.sum(cost(_PRICE, lease.c.created_at, lease.c.expires_at)).filter(_IS_LIVE).label("estimated_for_term"),
    )
    .where(lease.c.group_id == lease_group.c.id)
    .correlate(lease_group)
    .lateral("sums")
)
"""What the members have together. Members that have ended count with what they have cost."""
_GROUPS = select(
    *(column for column in lease_group.c if column.name not in {"reason", "next_due"}),
    lease_group.c.reason.op("-")(_literal(PROVIDER_MESSAGE)).label("reason"),
    *_SUMS.c,
    func.now().label("as_of"),
).select_from(lease_group.join(_SUMS, true()))


def page(criteria: GroupFilter, *, after: str | None, limit: int) -> AnySelect:
    """Groups with the sums of their members, newest first.

    `ready`: active members. `expires_at`: the latest. `accrued`, `rate_per_hour` and its parts: USD of all members until
    `as_of`. `estimated_price_per_hour` and `estimated_for_term`: USD of live members.
    """
    query = _GROUPS.where(owned(lease_group.c.tenant_id, criteria.tenant_id))
    if criteria.states:
        query = query.where(lease_group.c.state.in_(sorted(str(state) for state in criteria.states)))
    if criteria.name is not None:
        query = query.where(lease_group.c.name == criteria.name)
    if after is not None:
        query = query.where(lease_group.c.id < after)
    return query.order_by(lease_group.c.id.desc()).limit(limit)


def get(group_id: str, *, within: str | None) -> AnySelect:
    """One group, as `page` returns it."""
    return _GROUPS.where(lease_group.c.id == group_id, owned(lease_group.c.tenant_id, within))


def lock(group_id: str, *, within: str | None) -> AnySelect:
    """The group's row, locked until the transaction ends. Lock its members first: see `members.lock_members`."""
    named = (lease_group.c.id == group_id, owned(lease_group.c.tenant_id, within))
    return select(lease_group).where(*named).with_for_update()


def group_of(lease_id: str) -> AnySelect:
    """(id, rank) of the group that a lease is a member of, and the rank."""
    return select(lease.c.group_id.label("id"), lease.c.rank).where(
        lease.c.id == lease_id, lease.c.group_id.is_not(None)
    )


_NEWER = lease.alias("newer")
_LIVE = not_(lease.c.state.in_(sorted(str(state) for state in TERMINAL)))
_NEWEST = not_(
    select(_NEWER.c.id)
    .where(_NEWER.c.group_id == lease.c.group_id, _NEWER.c.rank == lease.c.rank, _NEWER.c.id > lease.c.id)
    .exists()
)


def members(group_id: str, *, within: str | None) -> AnySelect:
    """The members by rank: the newest lease of each rank below the size, and older ones that have not ended.

    `leaves`: its end is requested, and it has not ended or the group has not handled its loss yet.
    """
    own = lease.join(lease_group, lease_group.c.id == lease.c.group_id)
    is_listed = or_(_LIVE, and_(_NEWEST, lease.c.rank < lease_group.c.size))
    should_run = lease.c.desired == _literal(Desired.RUN)
    return (
        select(
            lease.c.rank,
            lease.c.id.label("lease_id"),
            lease.c.name,
            lease.c.state,
            lease.c.reason.op("-")(_literal(PROVIDER_MESSAGE)).label("reason"),
            lease.c.connection,
            lease.c.placement["zone"].astext.label("zone"),
            lease.c.gpu_count.label("gpus"),
            and_(lease.c.state == _literal(LeaseState.ACTIVE), should_run).label("runs"),
            and_(not_(should_run), or_(_LIVE, lease.c.group_pool.is_not(None))).label("leaves"),
            lease.c.ready_at,
            lease.c.group_check.label("check"),
        )
        .select_from(own)
        .where(lease.c.group_id == group_id, owned(lease.c.tenant_id, within), is_listed)
        .order_by(lease.c.rank, lease.c.id)
    )
