"""Groups in requests and responses."""

from collections.abc import Mapping
from enum import StrEnum
from typing import Annotated, Any

from fastapi import Depends, Query
from pydantic import AfterValidator, Field

from app.api.schemas.base import ActingTenant, Body, Moment, Name, Page, View
from app.api.schemas.costs import Cost, Estimate
from app.api.schemas.hardware import GROWS
from app.api.schemas.lease_bodies import NewLease, new_lease
from app.api.schemas.lease_filters import QueryText
from app.api.schemas.leases import MemberRequest, Reason
from app.api.schemas.offerings import LeasePlan, PlanCost
from app.domain.groups.checks import AllReduceResult, MeshResult
from app.domain.groups.groups import (
    MOST_MEMBERS,
    GroupInterconnect,
    GroupPlacement,
    GroupState,
    OnMemberLoss,
)
from app.domain.leases import LeaseState
from app.domain.list_filters import GroupFilter
from app.domain.offerings import Market
from app.domain.rates import CostScope
from app.services.errors import FieldError, InvalidRequest
from app.services.groups.requests import LEAST_FORM_SECONDS, MOST_FORM_SECONDS, CreateGroup, about_lease

_LONGEST_NAME = 59
"""A member's name adds a hyphen and up to three digits."""
_OF_GROUP = {
    "name": "must be left out: the members are named after the group",
    "tenant_id": "must be left out: set the group's tenant_id",
    "quote_id": "must be left out: a quote is for one lease",
    "volumes": "must be left out: one VM at a time mounts a volume",
}
"""Fields of a lease request that no member has."""

GroupSize = Annotated[int, Field(ge=1, le=MOST_MEMBERS)]


def _short(name: str) -> str:
    if len(name) > _LONGEST_NAME:
        raise ValueError(f"must have at most {_LONGEST_NAME} characters: members are named after the group")
    return name


class NewGroup(Body):
    """A group of equal leases that start together in one pool: one account, region, instance type and market."""

    name: Annotated[
        Name,
        Field(description="Unique among the tenant's live groups. Members are named NAME-0, NAME-1 and so on."),
        AfterValidator(_short),
    ]
    size: Annotated[GroupSize, Field(description="The number of members.")]
    min_size: Annotated[
        GroupSize | None,
        Field(description="The number of members without which the group does not run. Null: `size`."),
    ] = None
    lease: Annotated[NewLease, Field(description="The request of each member, without a name.")]
    placement: Annotated[
        GroupPlacement,
        Field(
            strict=False,
            description="`any`: one region. `same_zone`: one zone. `cluster`: one zone, and close to each other there.",
        ),
    ] = GroupPlacement.ANY
    interconnect: Annotated[
        GroupInterconnect,
        Field(
            strict=False,
            description="Whether the VMs need a network fabric besides Ethernet, such as EFA or InfiniBand.",
        ),
    ] = GroupInterconnect.NONE
    form_seconds: Annotated[
        int,
        Field(
            ge=LEAST_FORM_SECONDS,
            le=MOST_FORM_SECONDS,
            description="How long the members may take to be ready in one pool. After that the next pool is tried.",
        ),
    ] = 900
    on_member_loss: Annotated[
        OnMemberLoss,
        Field(
            strict=False,
            description=(
                "What the loss of a member's VM means for a formed group. `end`: the group ends. `replace`: the member "
                "is replaced in the same pool. `keep`: the group goes on while `min_size` members are left."
            ),
        ),
    ] = OnMemberLoss.END
    tenant_id: ActingTenant = None


class GroupPatch(Body):
    """The new size. New members take the ranks of lost members first, then the next ranks.

    A smaller group releases its last ranks.
    """

    size: Annotated[GroupSize, Field(description="The number of members. A smaller size also lowers `min_size`.")]


class GroupPool(View):
    """Where all members of a group are placed."""

    account: str
    region: str
    zone: Annotated[str | None, Field(description="Null: any zone of the region.")]
    instance_type: str
    market: Annotated[Market, Field(description="The market of the offering. " + GROWS)]


class TriedPool(GroupPool):
    """A pool that did not form the group."""

    failed_at: Annotated[Moment, Field(description="When the pool was given up.")]


class GroupCheck(View):
    """What a member's VM found when it last checked its group. Root in the VM can forge it."""

    nodes: Annotated[int, Field(description="The members that the VM knew, itself included.")]
    mesh: Annotated[MeshResult, Field(description="Whether the VM reaches every other member over TCP. " + GROWS)]
    unreachable: Annotated[list[int], Field(description="Ranks that did not answer.")]
    all_reduce: Annotated[
        AllReduceResult | None,
        Field(description="One all-reduce over all GPUs of the group. `unavailable`: no GPU or no NCCL. " + GROWS),
    ]
    all_reduce_gbps: Annotated[float | None, Field(description="Bus bandwidth of the all-reduce, in GB/s.")]
    checked_at: Moment


class GroupMember(View):
    """A member of a group."""

    rank: Annotated[int, Field(description="From 0. A member keeps its rank.")]
    lease_id: str
    name: str
    state: Annotated[LeaseState, Field(description="The state of the lease. " + GROWS)]
    reason: Reason | None
    public_ip: str | None
    private_ip: str | None
    zone: str | None
    gpus: int | None
    ready_at: Moment | None
    check: Annotated[GroupCheck | None, Field(description="Null: its VM has not checked its group yet, or never does.")]


class GroupSummary(View):
    """A group without its members. `ready` and the amounts change without a new `version`."""

    id: str
    tenant_id: str
    name: str
    state: Annotated[GroupState, Field(description=f"The state of the group; `reason` gives its cause. {GROWS}")]
    terminal: Annotated[bool, Field(description="Every member has ended.")]
    reason: Reason | None
    size: Annotated[int, Field(description="The number of members.")]
    min_size: Annotated[int, Field(description="The number of members without which the group does not run.")]
    ready: Annotated[int, Field(description="The number of members that are active.")]
    placement: Annotated[GroupPlacement, Field(description="How close the members' VMs are. " + GROWS)]
    interconnect: Annotated[
        GroupInterconnect, Field(description="Whether the VMs need a network fabric besides Ethernet. " + GROWS)
    ]
    form_seconds: Annotated[int, Field(description="How long the members may take to be ready in one pool.")]
    on_member_loss: Annotated[
        OnMemberLoss, Field(description="What the loss of a member means for a formed group. " + GROWS)
    ]
    pool: Annotated[GroupPool | None, Field(description="Null: no pool is chosen.")]
    pools_tried: Annotated[list[TriedPool], Field(description="Pools that did not form the group, in order.")]
    key_id: Annotated[str | None, Field(description="The API key that created the group.")]
    version: int
    created_at: Moment
    pool_started_at: Annotated[Moment | None, Field(description="When the members began to launch in the pool.")]
    wait_until: Annotated[Moment, Field(description="No pool is tried a second time later.")]
    formed_at: Annotated[Moment | None, Field(description="When the group was active first.")]
    expires_at: Annotated[Moment | None, Field(description="The latest expiry of a member.")]
    cost: Cost
    estimate: Annotated[Estimate | None, Field(description="Null: no member is live.")]
    release_requested_at: Annotated[Moment | None, Field(description="When its end was requested. Null: it was not.")]
    ended_at: Moment | None
    updated_at: Moment


class Group(GroupSummary):
    """A group and its members."""

    lease: Annotated[MemberRequest, Field(description="The request of each member, with defaults filled in.")]
    members: Annotated[list[GroupMember], Field(description="By rank. An ended member appears until it is replaced.")]


class GroupPlan(LeasePlan):
    """The result that a create of the group would have now. The call changes nothing.

    `candidates` have the price of each member. `quota`, `budgets` and `cost` are for all members.
    """

    size: Annotated[int, Field(description="The number of members.")]
    member_cost: Annotated[PlanCost | None, Field(description="Cost of each member at the first candidate.")]


class GroupPage(Page):
    """A page of groups, newest first."""

    items: list[GroupSummary]


class GroupStateFilter(StrEnum):
    """A group state, or `!ended` for all groups that have not ended."""

    QUEUED = "queued"
    FORMING = "forming"
    ACTIVE = "active"
    DEGRADED = "degraded"
    RELEASING = "releasing"
    ENDED = "ended"
    NOT_ENDED = "!ended"


async def _filter(
    state: Annotated[list[GroupStateFilter] | None, Query(description="Repeatable.")] = None,
    name: Annotated[QueryText | None, Query(description="The exact name.")] = None,
    tenant_id: Annotated[QueryText | None, Query(description="Operators only.")] = None,
) -> GroupFilter:
    states: set[GroupState] = set()
    for state_filter in state or ():
        live = set(GroupState) - {GroupState.ENDED}
        states |= live if state_filter is GroupStateFilter.NOT_ENDED else {GroupState(state_filter.value)}
    return GroupFilter(tenant_id=tenant_id, states=frozenset(states), name=name)


UseGroupFilter = Annotated[GroupFilter, Depends(_filter)]


def new_group(body: NewGroup) -> CreateGroup:
    """Converts the body to the service's request. Raises InvalidRequest for contradictory fields."""
    min_size = body.size if body.min_size is None else body.min_size
    errors = [
        FieldError(f"#/body/lease/{name}", detail)
        for name, detail in _OF_GROUP.items()
        if getattr(body.lease, name) is not None
    ]
    if min_size > body.size:
        errors.append(FieldError("#/body/min_size", f"must be at most size, which is {body.size}"))
    if body.placement is GroupPlacement.CLUSTER and len(body.lease.regions or ()) > 1:
        detail = f"must name one region for placement cluster, not {len(body.lease.regions or ())}"
        errors.append(FieldError("#/body/lease/regions", detail))
    if errors:
        raise InvalidRequest(errors=errors)
    with about_lease():
        lease = new_lease(body.lease)
    return CreateGroup(
        tenant_id=body.tenant_id,
        name=body.name,
        size=body.size,
        min_size=min_size,
        lease=lease,
        placement=body.placement,
        interconnect=body.interconnect,
        form_seconds=body.form_seconds,
        on_member_loss=body.on_member_loss,
    )


def summary_view(row: Any) -> GroupSummary:
    """Converts a row of `lists.page`."""
    return GroupSummary.model_validate(_summary(row))


def group_view(group: Any) -> Group:
    """Converts a group of GroupService."""
    row = vars(group)
    return Group.model_validate({**_summary(row), "members": [_member(member) for member in row["members"]]})


def _summary(row: Mapping[str, Any]) -> dict[str, Any]:
    disk, address, total = (row[name] for name in ("disk_rate_per_hour", "address_rate_per_hour", "rate_per_hour"))
    parts = (
        None if total is None else {"compute": total - (disk or 0) - (address or 0), "disk": disk, "address": address}
    )
    covered = {"currency": "USD", "covers": CostScope.VM, "as_of": row["as_of"]}
    cost = {"accrued": row["accrued"], "price_per_hour": total, "parts": parts, **covered}
    price, of_term = row["estimated_price_per_hour"], row["estimated_for_term"]
    estimate = None if price is None else {"price_per_hour": price, "price_for_term": of_term, **covered}
    return {**row, "terminal": row["ended_at"] is not None, "cost": cost, "estimate": estimate}


def _member(row: Any) -> dict[str, Any]:
    connection = row.connection or {}
    addresses = {name: connection.get(name) for name in ("public_ip", "private_ip")}
    return {**vars(row), **addresses}
