"""Reboots, and console output of VMs that did not boot."""

from fastapi import Request, Response

from app.api.http.etags import UseIfMatch, tagged
from app.api.http.idempotency import IdempotencyHeader, idempotency_key, respond
from app.api.http.routing import Member, UseServices
from app.api.http.routing import router as make_router
from app.api.schemas.consoles import ConsoleOutput, ConsoleOutputPage
from app.api.schemas.lease_serializer import lease_json
from app.api.schemas.leases import Lease
from app.services.preconditions import list_tag

router = make_router("leases")


@router.post("/v1/leases/{lease_id}/reboot", status_code=202, response_model=Lease)
async def reboot_lease(
    request: Request,
    lease_id: str,
    principal: Member,
    services: UseServices,
    if_match: UseIfMatch,
    key: IdempotencyHeader = None,
) -> Response:
    """Reboot the VM of an active lease. The event `lease.rebooted` or `lease.reboot_failed` reports the result."""
    repeat = idempotency_key(request, principal, key, None)
    call = services.lease_access.reboot(principal, lease_id, if_match=if_match, key=repeat)
    return await respond(call, lambda row: lease_json(row, principal.role), status=202)


@router.get("/v1/leases/{lease_id}/console", response_model=ConsoleOutputPage)
async def list_lease_console_output(
    request: Request, lease_id: str, principal: Member, services: UseServices
) -> Response:
    """List console output of this lease's VMs that did not boot in time. It is kept for 7 days.

    Start-up scripts may print secrets.
    """
    rows = await services.lease_access.console(principal, lease_id)
    items = [ConsoleOutput(n=row.n, text=row.text, created_at=row.at) for row in rows]
    tag = list_tag(((lease_id, row.n) for row in rows), also="console")
    return tagged(request, ConsoleOutputPage(items=items, next_cursor=None), tag)
