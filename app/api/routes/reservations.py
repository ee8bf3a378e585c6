"""The reservations: capacity that the operators bought ahead."""

from datetime import datetime
from decimal import Decimal
from typing import Annotated, Any

from fastapi import Request, Response
from pydantic import Field
from pydantic_core import to_json

from app.api.http.etags import tagged
from app.api.http.routing import UseServices, Viewer
from app.api.http.routing import router as make_router
from app.api.schemas.base import Moment, Money, View
from app.api.schemas.hardware import Gpu
from app.domain.money import format_money
from app.domain.offerings import Offering
from app.domain.placed import type_facts
from app.services.offerings import AvailabilityStatus, availability
from app.services.preconditions import list_tag

router = make_router("offerings")


class Reservation(View):
    """Capacity at a provider that the operators bought ahead. Leases use it in the market `reserved`."""

    account: str
    name: str
    provider: str
    kind: Annotated[str, Field(description="The kind of reservation at its provider, as in the account's settings.")]
    region: str
    zone: str
    instance_type: str
    gpu: Gpu
    price_per_hour: Annotated[Money, Field(description="What a lease is billed for the whole VM, in USD.")]
    slots: Annotated[int | None, Field(description="VMs at a time. Null: no fixed number.")]
    free: Annotated[int | None, Field(description="VMs that can start now. Null: no fixed number.")]
    starts_at: Annotated[Moment | None, Field(description="No VM starts before. Null: no limit.")]
    ends_at: Annotated[Moment | None, Field(description="No VM runs after. Null: no limit.")]
    latest_expires_at: Annotated[
        Moment | None, Field(description="The latest end of a lease that starts now. Null: no limit.")
    ]
    status: AvailabilityStatus
    reason: str | None
    tenants: Annotated[
        list[str] | None, Field(description="Tenants that may use it; empty: all. Null for all roles except operators.")
    ]
    observed_at: Moment | None


class ReservationPage(View):
    """All reservations that the caller may use, by account and name."""

    items: list[Reservation]
    next_cursor: str | None


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
        "price_per_hour": format_money(offering.price_per_hour or Decimal(0)),
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
