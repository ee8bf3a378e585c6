"""The reservations: capacity that the operators bought ahead."""

from datetime import datetime
from typing import Any

from fastapi import Request, Response
from pydantic_core import to_json

from app.api.http.etags import tagged
from app.api.http.routing import UseServices, Viewer
from app.api.http.routing import router as make_router
from app.api.schemas.reservations import ReservationPage
from app.domain.offerings import Offering
from app.domain.placed import type_facts
from app.domain.rates import rate_at
from app.domain.vm_parts import DEFAULT_PARTS
from app.services.offerings.offerings import availability
from app.services.preconditions import list_tag

router = make_router("offerings")


@router.get("/v1/reservations", response_model=ReservationPage)
async def list_reservations(request: Request, principal: Viewer, services: UseServices) -> Response:
    """List the reservations. Operators see all; a tenant sees those that it may use."""
    offerings, now = await services.offerings.reservations(principal.tenant_id)
    items = [_reservation(offering, now, operator=principal.is_operator) for offering in offerings]
    content = to_json({"items": items, "next_cursor": None})
    return tagged(request, content, list_tag((), also=content.decode()))


def _reservation(offering: Offering, now: datetime, *, operator: bool) -> dict[str, Any]:
    key, reservation = offering.key, offering.reservation
    assert reservation is not None
    known = availability(offering, now, operator=operator)
    # rounded to a minute, so that the ETag changes rarely
    last = reservation.last_expiry(now.replace(second=0, microsecond=0))
    return {
        "account": key.account,
        "name": reservation.name,
        "provider": offering.provider,
        "kind": reservation.kind,
        "region": key.region,
        "zone": key.zone,
        "instance_type": key.instance_type,
        "gpu": type_facts(offering.type)["gpu"],
        **rate_at(offering, DEFAULT_PARTS).as_json(),
        "slots": reservation.slots,
        "free": reservation.free,
        "starts_at": reservation.starts_at,
        "ends_at": reservation.ends_at,
        "latest_expires_at": last,
        "status": known.status,
        "reason": known.reason,
        "tenants": sorted(reservation.tenants) if operator else None,
        "observed_at": offering.price_as_of,
    }
