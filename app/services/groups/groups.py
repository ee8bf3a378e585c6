"""Reading groups, their members and their hosts."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from types import SimpleNamespace
from typing import Any

from sqlalchemy.ext.asyncio import AsyncConnection

from app.db.groups import lists, members
from app.domain.groups.checks import parse_group_check
from app.domain.groups.groups import GroupState, OnMemberLoss
from app.domain.groups.hosts import MASTER_PORT, HostFormat, MemberHost, render
from app.domain.groups.lifecycle import RankHeldError, RankHolder, may_be_replaced, ranks_to_fill
from app.domain.ids import GroupId, is_typeid
from app.domain.leases import TERMINAL
from app.domain.list_filters import GroupFilter
from app.domain.reasons import ReasonCode
from app.services.context import ServiceContext
from app.services.cursors import PageRequest, RowPage, cut, last_id
from app.services.errors import Conflict, FieldError, GroupNotFormed, InvalidRequest, ResourceNotFound
from app.services.gpus.agents import Agent
from app.services.principal import Principal
from app.services.totals import total_count

_NO_MEMBER = "The lease of this VM is a member of no group."

_KIND = "groups"
_FORMED = frozenset({GroupState.ACTIVE, GroupState.DEGRADED})


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupHosts:
    """The hosts of a group by rank. `complete`: the group is formed, and each of its members has an address."""

    group_id: GroupId
    name: str
    state: GroupState
    size: int
    complete: bool
    hosts: tuple[MemberHost, ...]
    master_port: int = MASTER_PORT

    @property
    def master_addr(self) -> str | None:
        """The address of the first host. None: there is no host yet."""
        return self.hosts[0].address if self.hosts else None

    def text(self, form: HostFormat) -> str:
        """The hosts in a form of text. Raises GroupNotFormed."""
        if self.state not in _FORMED:
            detail = f"The group is {self.state}; {len(self.hosts)} of {self.size} members are ready."
            raise GroupNotFormed(detail, retryable=self.state in {GroupState.QUEUED, GroupState.FORMING})
        return render(form, self.name, self.hosts)

    def rank_of(self, lease_id: str) -> int | None:
        """The position of a member's host. None: it is not among the hosts yet."""
        return next((n for n, host in enumerate(self.hosts) if host.lease_id == lease_id), None)


class GroupService:
    """Reads groups for a caller. A group is a row of `lists.get` with `members`, rows of `lists.members`."""

    def __init__(self, context: ServiceContext) -> None:
        self._database = context.database

    async def get(self, principal: Principal, group_id: str) -> Any:
        """Raises ResourceNotFound."""
        async with self._database.transaction(principal.tenant_id, read_only=True) as connection:
            return await read_group(connection, principal, group_id)

    async def page(self, principal: Principal, criteria: GroupFilter, page: PageRequest) -> RowPage:
        """Rows of `lists.page` without members, newest first. Raises InvalidRequest for a cursor of another list."""
        after = last_id(page, _KIND, "group")
        mine = principal.tenant_id
        rows = await self._database.rows(mine, lists.page(criteria, after=after, limit=page.limit + 1))
        first = partial(lists.page, criteria, after=None, limit=1)
        return cut(rows, page, _KIND, await total_count(self._database, mine, page, first))

    async def hosts(self, principal: Principal, group_id: str) -> GroupHosts:
        """Raises ResourceNotFound."""
        return hosts_of(await self.get(principal, group_id))

    async def hosts_of_agent(self, agent: Agent) -> GroupHosts:
        """The hosts of the group that an agent's lease is a member of. Raises ResourceNotFound."""
        async with self._database.transaction(agent.tenant_id, read_only=True) as connection:
            own = (await connection.execute(lists.group_of(agent.lease_id))).first()
            if own is None:
                raise ResourceNotFound(_NO_MEMBER)
            return hosts_of(await _read(connection, own.id, agent.tenant_id))

    async def record_check(self, agent: Agent, report: Any) -> None:
        """Stores what a VM found when it checked its group. Raises InvalidRequest, and ResourceNotFound for no member."""
        try:
            check = parse_group_check(report)
        except ValueError as error:
            raise InvalidRequest(errors=[FieldError("#/body", str(error))]) from None
        statement = members.record_check(agent.lease_id, check.as_json(agent.now))
        async with self._database.transaction(agent.tenant_id) as connection:
            if (await connection.execute(*statement)).first() is None:
                raise ResourceNotFound(_NO_MEMBER)

    async def require(self, principal: Principal, group_id: str) -> None:
        """Raises ResourceNotFound."""
        statement = lists.get(group_key(group_id), within=principal.tenant_id)
        if not await self._database.rows(principal.tenant_id, statement):
            raise ResourceNotFound


def group_key(group_id: str) -> GroupId:
    """The same text when it is the id of a group. Raises ResourceNotFound."""
    if not is_typeid("group", group_id):
        raise ResourceNotFound
    return GroupId(group_id)


async def read_group(connection: AsyncConnection, principal: Principal, group_id: str) -> Any:
    """A group as `GroupService` returns it. Raises ResourceNotFound."""
    return await _read(connection, group_key(group_id), principal.tenant_id)


async def _read(connection: AsyncConnection, group_id: str, within: str | None) -> Any:
    row: Any = (await connection.execute(lists.get(group_id, within=within))).mappings().first()
    if row is None:
        raise ResourceNotFound
    member_rows: Sequence[Any] = (await connection.execute(lists.members(group_id, within=within))).mappings().all()
    return SimpleNamespace(**row, members=[SimpleNamespace(**member) for member in member_rows])


async def free_ranks(connection: AsyncConnection, row: Any, size: int) -> list[int]:
    """The ranks of a group that get a member when it grows to `size`.

    Raises Conflict while a former member, which the group does not replace, still has one of them.
    """
    members = (await connection.execute(lists.members(row.id, within=row.tenant_id))).all()
    holders = [_holder(row, member) for member in members]
    try:
        return ranks_to_fill(holders, size=row.size, new_size=size, formed=row.state in _FORMED)
    except RankHeldError as error:
        holder = error.holder
        detail = f"The former member {holder.lease_id} of rank {holder.rank} is still ending: repeat the call when it has ended."
        raise Conflict(detail, extra={"lease_id": holder.lease_id}, retryable=True) from None


def _holder(row: Any, member: Any) -> RankHolder:
    code = None if member.reason is None else ReasonCode(member.reason["code"])
    return RankHolder(
        lease_id=member.lease_id,
        rank=member.rank,
        leaves=member.leaves,
        ended=member.state in TERMINAL,
        replaced=may_be_replaced(OnMemberLoss(row.on_member_loss), code),
    )


def hosts_of(group: Any) -> GroupHosts:
    """The hosts of a group that `read_group` returned: members that are ready and have an address."""
    hosts = tuple(host for host in map(_host, filter(_runs, group.members)) if host.address)
    state = GroupState(group.state)
    expected = group.size if state is GroupState.ACTIVE else max(1, group.ready)
    return GroupHosts(
        group_id=GroupId(group.id),
        name=group.name,
        state=state,
        size=group.size,
        complete=state in _FORMED and len(hosts) >= expected,
        hosts=hosts,
    )


def _runs(member: Any) -> bool:
    return bool(member.runs)


def _host(member: Any) -> MemberHost:
    connection: Mapping[str, Any] = member.connection or {}
    return MemberHost(
        rank=member.rank,
        lease_id=member.lease_id,
        name=member.name,
        private_ip=connection.get("private_ip"),
        public_ip=connection.get("public_ip"),
        ssh_user=connection.get("ssh_user"),
        ssh_port=connection.get("ssh_port"),
        gpus=member.gpus,
    )
