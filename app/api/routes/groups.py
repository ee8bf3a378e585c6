"""Groups of leases that start together in one place."""

from dataclasses import replace
from typing import Annotated, Any

from fastapi import Body, Query, Request, Response

from app.api.http.etags import UseIfMatch, tagged, tagged_by_content
from app.api.http.idempotency import IdempotencyHeader, idempotency_key, respond
from app.api.http.pagination import UsePage
from app.api.http.responses import answer
from app.api.http.routing import Member, UseServices, Viewer, agent_router, calling_agent, costly, count_report
from app.api.http.routing import router as make_router
from app.api.routes.events import UseRange, event_page
from app.api.routes.offerings import PLANNED, UsePlanLimit, UsePlanSkip, group_plan_json, sight_of
from app.api.schemas.base import to_bytes
from app.api.schemas.events import EventPage, UseLeaseEventFilter
from app.api.schemas.group_hosts import GroupHostList, NodeHosts, hosts_view, node_hosts_view
from app.api.schemas.groups import (
    Group,
    GroupPage,
    GroupPatch,
    GroupPlan,
    NewGroup,
    UseGroupFilter,
    group_view,
    new_group,
    summary_view,
)
from app.api.schemas.lease_bodies import LeaseExtension, later_expiry
from app.domain.groups.hosts import HostFormat
from app.services.errors import FieldError, InvalidRequest
from app.services.preconditions import list_tag, version_tag

router = make_router("groups")
member_router = agent_router()

_TEXT = "text/plain; charset=utf-8"


@router.post("/v1/groups", status_code=201, response_model=Group)
@costly
async def create_group(
    request: Request, body: NewGroup, principal: Member, services: UseServices, key: IdempotencyHeader = None
) -> Response:
    """Create a group of leases that start together in one place.

    All members are admitted, or none. The response is in state `queued`; poll `GET /v1/groups/{id}` for progress.
    """
    repeat = idempotency_key(request, principal, key, body)
    call = services.group_creation.create(principal, new_group(body), repeat)
    return await respond(call, lambda group: group_view(group).model_dump_json().encode(), status=201)


@router.post("/v1/groups/plan", response_model=GroupPlan)
@costly
async def plan_group(
    body: NewGroup, principal: Member, services: UseServices, limit: UsePlanLimit = PLANNED, skip: UsePlanSkip = 0
) -> Response:
    """Preview a create: the best candidates in order, and the cost of all members. The call creates nothing."""
    plan = await services.group_plan.plan(principal, new_group(body), slice(skip, skip + limit))
    return answer(to_bytes(group_plan_json(plan, sight_of(services, principal, plan.as_of))))


@router.get("/v1/groups", response_model=GroupPage)
async def list_groups(
    request: Request, principal: Viewer, services: UseServices, page: UsePage, criteria: UseGroupFilter
) -> Response:
    """List groups without their members, newest first."""
    if principal.tenant_id is not None:
        if criteria.tenant_id not in {None, principal.tenant_id}:
            raise InvalidRequest(errors=[FieldError("#/query/tenant_id", "only operators may name another tenant")])
        criteria = replace(criteria, tenant_id=principal.tenant_id)
    matches = await services.groups.page(principal, criteria, page)
    items = [summary_view(row) for row in matches.rows]
    content = GroupPage(items=items, next_cursor=matches.next_cursor, total_count=matches.total_count)
    # what members cost grows all the time: without it, the tag of a list whose groups run would fit no second read
    lasting = content.model_dump_json(exclude={"items": {"__all__": {"cost": {"accrued", "as_of"}}}})
    return tagged(request, content, list_tag((), also=lasting))


@router.get("/v1/groups/{group_id}", response_model=Group)
async def get_group(group_id: str, principal: Viewer, services: UseServices) -> Response:
    """Read a group and its members. Its ETag changes with the group, not with its members."""
    return _answered(group_view(await services.groups.get(principal, group_id)))


@router.patch("/v1/groups/{group_id}", response_model=Group)
@costly
async def resize_group(
    group_id: str, body: GroupPatch, principal: Member, services: UseServices, if_match: UseIfMatch
) -> Response:
    """Change the size of a group. All additional members are admitted, or none."""
    return _answered(group_view(await services.group_changes.resize(principal, group_id, body.size, if_match)))


@router.post("/v1/groups/{group_id}/extend", response_model=Group)
@costly
async def extend_group(
    request: Request,
    group_id: str,
    body: LeaseExtension,
    principal: Member,
    services: UseServices,
    if_match: UseIfMatch,
    key: IdempotencyHeader = None,
) -> Response:
    """Extend all members of a group, or none, by a duration or to a time.

    A duration is added to the latest expiry of a member. Afterwards no member expires before the new time. A member whose
    term is already over is not extended: the group loses it. The limits of `POST /v1/leases/{id}/extend` hold for each
    member.
    """
    repeat = idempotency_key(request, principal, key, body)
    call = services.group_changes.extend(principal, group_id, later_expiry(body), if_match=if_match, key=repeat)
    return await respond(call, lambda group: group_view(group).model_dump_json().encode(), status=200)


@router.delete("/v1/groups/{group_id}", status_code=202, response_model=Group)
async def release_group(group_id: str, principal: Member, services: UseServices, if_match: UseIfMatch) -> Response:
    """Release a group and all of its members in any state. Repeating the call has no effect."""
    return _answered(group_view(await services.group_changes.release(principal, group_id, if_match)), status=202)


@router.get("/v1/groups/{group_id}/events", response_model=EventPage)
async def list_group_events(
    request: Request,
    group_id: str,
    principal: Viewer,
    services: UseServices,
    page: UsePage,
    span: UseRange,
    criteria: UseLeaseEventFilter,
) -> Response:
    """List the events of a group, oldest first unless `sort` is set. Its members' events belong to their leases."""
    await services.groups.require(principal, group_id)
    named = replace(criteria, group_id=group_id)
    return event_page(request, await services.events.of_tenant(principal, named, span=span, page=page))


@router.get(
    "/v1/groups/{group_id}/hosts",
    response_model=GroupHostList,
    responses={200: {"content": {"text/plain": {"schema": {"type": "string"}, "example": "10.0.0.4 slots=8\n"}}}},
)
async def list_group_hosts(
    request: Request,
    group_id: str,
    principal: Viewer,
    services: UseServices,
    form: Annotated[
        HostFormat,
        Query(
            alias="format",
            description=(
                "`hostfile`: Open MPI. `slurm`: a node list. `ansible`: an inventory. `torchrun`: the command of each "
                "host. All but `json` are text, and need a group that is `active` or `degraded`."
            ),
        ),
    ] = HostFormat.JSON,
) -> Response:
    """List the VMs of a group's active members by rank."""
    hosts = await services.groups.hosts(principal, group_id)
    if form is HostFormat.JSON:
        return tagged_by_content(request, hosts_view(hosts).model_dump_json().encode())
    text = hosts.text(form)
    return Response(text, headers={"ETag": list_tag((), also=text)}, media_type=_TEXT)


@member_router.get("/v1/group-hosts", response_model=NodeHosts)
async def get_own_group_hosts(request: Request, services: UseServices) -> Response:
    """List the nodes of the group that the calling VM belongs to. Each VM receives its token at launch.

    People do not use this call.
    """
    agent = calling_agent(request)
    hosts = await services.groups.hosts_of_agent(agent)
    return answer(node_hosts_view(hosts, agent.lease_id))


@member_router.post("/v1/group-hosts", status_code=204, response_class=Response)
async def report_group_check(
    request: Request,
    body: Annotated[
        dict[str, Any],
        Body(
            description="Whether the VM reaches the other members, and the result of the all-reduce.",
            json_schema_extra={"maxProperties": 16},
        ),
    ],
    services: UseServices,
) -> Response:
    """Report what the calling VM found when it checked its group. People do not use this call."""
    agent = calling_agent(request)
    count_report(request, agent)
    await services.groups.record_check(agent, body)
    return Response(status_code=204)


def _answered(group: Group, *, status: int = 200) -> Response:
    return answer(group, status, {"ETag": version_tag(group.id, group.version)})
