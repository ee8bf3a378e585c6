"""Leases and their attempts."""

from dataclasses import replace
from functools import partial
from typing import Annotated, Any

import structlog
from fastapi import Query, Request, Response

from app.api.http.auth import Gate, turn_of
from app.api.http.etags import UseIfMatch, known_already, tagged
from app.api.http.idempotency import IdempotencyHeader, created, idempotency_key, respond
from app.api.http.pagination import UsePage, plain_page
from app.api.http.responses import answer
from app.api.http.routing import Member, UseServices, Viewer, plainly
from app.api.http.routing import router as make_router
from app.api.routes.events import LARGEST_NUMBER
from app.api.schemas.bulk_release import BulkRelease, LeaseSelection, bulk_release, selection
from app.api.schemas.lease_bodies import LeaseExtension, LeasePatch, NewLease, later_expiry, lease_changes, new_lease
from app.api.schemas.lease_filters import UseLeaseFilter, UseLeaseSort
from app.api.schemas.lease_serializer import attempt_page_json, lease_json, lease_page_json
from app.api.schemas.leases import AttemptPage, Lease, LeasePage
from app.domain.list_filters import LeaseFilter, LeaseSort
from app.services.container import Services
from app.services.cursors import PageRequest
from app.services.errors import FieldError, InvalidRequest
from app.services.preconditions import list_tag, parse_tags, version_tag
from app.services.principal import Principal

router = make_router("leases")

_LONGEST_POLL = 60


@router.post("/v1/leases", status_code=201, response_model=Lease)
async def create_lease(
    request: Request, body: NewLease, principal: Member, services: UseServices, key: IdempotencyHeader = None
) -> Response:
    """Create a lease.

    The response is in state `queued`; poll `GET /v1/leases/{id}` or subscribe to events for progress.
    """
    repeat = idempotency_key(request, principal, key, body)
    asked, tenant_id = body.quote_id, body.tenant_id
    quote = None if asked is None else await services.quotes.for_lease(principal, asked, tenant_id)
    new = new_lease(body, quote)
    reply = await services.lease_creation.create(principal, new, repeat, lambda row: lease_json(row, principal.role))
    structlog.contextvars.bind_contextvars(lease_id=(reply.location or "").rpartition("/")[2])
    return created(reply.content, location=reply.location, replayed=reply.replayed)


async def _plain_list(request: Request, principal: Principal, services: Services) -> Response | None:
    page = plain_page(request)
    return None if page is None else await _list(request, principal, services, LeaseFilter(), page)


@router.get("/v1/leases", response_model=LeasePage)
@plainly(_plain_list)
async def list_leases(
    request: Request,
    principal: Viewer,
    services: UseServices,
    criteria: UseLeaseFilter,
    page: UsePage,
    sort: UseLeaseSort = LeaseSort.CREATED_AT_DESC,
) -> Response:
    """List leases, newest first unless `sort` is set."""
    return await _list(request, principal, services, criteria, page, sort)


async def _list(
    request: Request,
    principal: Principal,
    services: Services,
    criteria: LeaseFilter,
    page: PageRequest,
    sort: LeaseSort = LeaseSort.CREATED_AT_DESC,
) -> Response:
    known = parse_tags(request.headers.get("if-none-match"))
    matches = await services.leases.list(principal, _mine(principal, criteria), sort, page, known)
    if matches.page is None:
        return known_already(matches.etag)
    return tagged(request, lease_page_json(matches.page, principal.role), matches.etag)


@router.post("/v1/leases/release", response_model=BulkRelease)
async def release_leases(body: LeaseSelection, principal: Member, services: UseServices) -> Response:
    """Release several leases. Repeating the call has no effect on leases that are already ending."""
    released = await services.bulk_release.release(principal, selection(body))
    return answer(bulk_release(released, dry_run=body.dry_run))


async def _plain_get(request: Request, principal: Principal, services: Services) -> Response | None:
    return None if request.scope["query_string"] else await _get(request, principal, services, _lease_id(request))


def _lease_id(request: Request) -> str:
    lease_id: str = request.scope["path_params"]["lease_id"]
    return lease_id


@router.get("/v1/leases/{lease_id}", response_model=Lease)
@plainly(_plain_get)
async def get_lease(
    request: Request,
    lease_id: str,
    principal: Viewer,
    services: UseServices,
    poll_seconds: Annotated[
        int,
        Query(
            ge=0,
            le=_LONGEST_POLL,
            description="Wait at most this long for a version other than `if_version`, which it requires.",
        ),
    ] = 0,
    if_version: Annotated[
        int | None, Query(ge=0, le=LARGEST_NUMBER, description="The version that the caller has.")
    ] = None,
) -> Response:
    """Read a lease. With `poll_seconds` and `if_version`, the call returns when the lease changes or the time is up."""
    if poll_seconds:
        if if_version is None:
            detail = "requires if_version: the version to wait beyond"
            raise InvalidRequest(errors=[FieldError("#/query/poll_seconds", detail)])
        unchanged = partial(services.leases.is_at, principal, lease_id, if_version)
        async with turn_of(request).aside():
            await services.streams.wait(principal, lease_id, unchanged, poll_seconds)
        gate: Gate = request.app.state.gate
        await gate.check_again(request, principal)
    return await _get(request, principal, services, lease_id)


async def _get(request: Request, principal: Principal, services: Services, lease_id: str) -> Response:
    known = parse_tags(request.headers.get("if-none-match"))
    lease = await services.leases.get(principal, lease_id, known)
    if lease.row is None:
        return known_already(lease.etag)
    script = getattr(lease.row, "startup_script", None)
    return tagged(request, lease_json(lease.row, principal.role, startup_script=script), lease.etag)


@router.patch("/v1/leases/{lease_id}", response_model=Lease)
async def update_lease(
    lease_id: str, body: LeasePatch, principal: Member, services: UseServices, if_match: UseIfMatch
) -> Response:
    """Change the name, the labels or the warnings of a lease."""
    changes = lease_changes(body)
    return _changed(await services.lease_changes.update(principal, lease_id, changes, if_match), principal)


@router.post("/v1/leases/{lease_id}/extend", response_model=Lease)
async def extend_lease(
    request: Request,
    lease_id: str,
    body: LeaseExtension,
    principal: Member,
    services: UseServices,
    if_match: UseIfMatch,
    key: IdempotencyHeader = None,
) -> Response:
    """Extend a lease by a duration, or to a time. An extension never shortens a lease.

    The new expiry is at most the tenant's `max_ttl_seconds` from now, and within the lease's maximum total term.
    """
    repeat = idempotency_key(request, principal, key, body)
    call = services.lease_changes.extend(principal, lease_id, later_expiry(body), if_match=if_match, key=repeat)
    return await respond(call, lambda row: lease_json(row, principal.role), status=200)


@router.delete("/v1/leases/{lease_id}", status_code=202, response_model=Lease)
async def release_lease(lease_id: str, principal: Member, services: UseServices, if_match: UseIfMatch) -> Response:
    """Release a lease in any state. Repeating the call has no effect."""
    return _changed(await services.lease_changes.release(principal, lease_id, if_match), principal, status=202)


@router.get("/v1/leases/{lease_id}/attempts", response_model=AttemptPage)
async def list_lease_attempts(
    request: Request, lease_id: str, principal: Viewer, services: UseServices, page: UsePage
) -> Response:
    """List every attempt of a lease to launch at an offering, with the provider's response."""
    attempts = await services.leases.attempts(principal, lease_id, page)
    facts = "\n".join(f"{row.state} {row.error} {row.billing_started_at} {row.ended_at}" for row in attempts.rows)
    tag = list_tag(((row.id, row.n) for row in attempts.rows), also=f"{facts}\n{attempts.position}")
    return tagged(request, attempt_page_json(attempts, principal.role), tag)


def _changed(row: Any, principal: Principal, *, status: int = 200) -> Response:
    return answer(lease_json(row, principal.role), status, {"ETag": version_tag(row.id, row.version)})


def _mine(principal: Principal, criteria: LeaseFilter) -> LeaseFilter:
    if principal.tenant_id is None:
        return criteria
    if criteria.tenant_id not in {None, principal.tenant_id}:
        raise InvalidRequest(errors=[FieldError("#/query/tenant_id", "only operators may name another tenant")])
    return replace(criteria, tenant_id=principal.tenant_id)
