"""Statements with which the API creates, resizes and ends groups."""

from collections.abc import Collection, Mapping
from typing import Any

from sqlalchemy import Text, Update, bindparam, func, select, update
from sqlalchemy.dialects.postgresql import ARRAY, Insert, insert

from app.db.core.sql import AnySelect
from app.db.leases.statements import same_name
from app.db.schema.tables import lease, lease_group, tenant
from app.domain.groups.groups import GroupState
from app.domain.ids import GroupId, TenantId
from app.domain.leases import Desired


def share_tenant(tenant_id: TenantId) -> AnySelect:
    """Locks the tenant against changes of its budgets. Locks of leases and groups come after it."""
    return select(tenant.c.id).where(tenant.c.id == tenant_id).with_for_update(read=True)


def add(values: Mapping[str, Any]) -> Insert:
    """The row of a new group. The index `ix_lease_group_tenant_id_name` refuses a name in use."""
    return insert(lease_group).values(**values)


def change(group_id: GroupId, values: Mapping[str, Any]) -> Update:
    """Writes `values`, increments the version and wakes the group. The caller has locked its row."""
    stamp = {"version": lease_group.c.version + 1, "updated_at": func.now(), "next_due": func.now()}
    return update(lease_group).where(lease_group.c.id == group_id).values({**values, **stamp})


def wake(group_id: GroupId) -> Update:
    """Makes a group due at once: nothing can be planned for a member. A change of a member's state does it by itself.

    The caller has locked the member.
    """
    live = lease_group.c.state != str(GroupState.ENDED)
    return update(lease_group).where(lease_group.c.id == group_id, live).values(next_due=func.now())


def group_named(tenant_id: TenantId, name: str) -> AnySelect:
    """(id) of the tenant's live group with the name."""
    named = (lease_group.c.tenant_id == tenant_id, lease_group.c.name == name)
    return select(lease_group.c.id).where(*named, lease_group.c.state != str(GroupState.ENDED))


def leases_named(tenant_id: TenantId, names: Collection[str]) -> AnySelect:
    """(id, name, group_id) of the tenant's first live lease with one of the names."""
    held = same_name(tenant_id, func.any(bindparam("names", list(names), type_=ARRAY(Text))))
    return held.add_columns(lease.c.name, lease.c.group_id).order_by(lease.c.name).limit(1)


def running_members(group_id: GroupId, *, first_rank: int = 0) -> AnySelect:
    """(id, state) of members whose end nobody has requested, from a rank on, the last rank first."""
    conditions = (lease.c.group_id == group_id, lease.c.rank >= first_rank, lease.c.desired == str(Desired.RUN))
    return select(lease.c.id, lease.c.state).where(*conditions).order_by(lease.c.rank.desc())
