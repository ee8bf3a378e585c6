"""Reservations: what reservations.get shows, and what a launch asks of one or of the flex-start queue."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from cloudsim.gce import links
from cloudsim.gce.call import Call, Result
from cloudsim.gce.catalog import PROVIDER, accelerator
from cloudsim.gce.catalog import machine_type as machine_type_of
from cloudsim.gce.errors import invalid, not_found
from cloudsim.world import Reservation

FLEX_START = "FLEX_START"
_BY_NAME = "compute.googleapis.com/reservation-name"
_WAIT = (90, 7200)
_RUN = (600, 7 * 86_400)
Body = Mapping[str, Any]


def get(call: Call) -> Result:
    """One reservation by name. Raises GceError notFound."""
    name = call.path["reservation"]
    reservation = _find(call, name)
    if reservation is None:
        raise not_found(f"projects/{call.project}/zones/{call.zone}/reservations/{name}")
    gpu, gpus = accelerator(reservation.instance_type)
    ends = {} if reservation.ends_at is None else {"deleteAtTime": links.rfc3339(reservation.ends_at)}
    return {
        "kind": "compute#reservation",
        "id": links.number("reservation", reservation.key),
        "name": reservation.id,
        "zone": links.zonal(call.project, reservation.zone),
        "status": "READY" if reservation.is_active(call.now) else "CREATING",
        "specificReservationRequired": True,
        "specificReservation": {
            "count": str(reservation.total),
            "inUseCount": str(reservation.total - call.world.free_machines(reservation)),
            "instanceProperties": {
                "machineType": machine_type_of(reservation.instance_type),
                "guestAccelerators": [{"acceleratorType": gpu, "acceleratorCount": gpus}],
            },
        },
        **ends,
    }


def _find(call: Call, name: str) -> Reservation | None:
    reservation = call.world.reservations.get(f"{PROVIDER}/{call.project}/{name}")
    return reservation if reservation is not None and reservation.zone == call.zone else None


def target(call: Call) -> str | None:
    """The key of the reservation that a launch names. Raises GceError for one that does not exist."""
    affinity: Body = call.body.get("reservationAffinity", {})
    if affinity.get("consumeReservationType") != "SPECIFIC_RESERVATION":
        return None
    values = affinity.get("values", [])
    if affinity.get("key") != _BY_NAME or len(values) != 1:
        raise invalid("resource.reservationAffinity", f"It must name one reservation by the key {_BY_NAME}.")
    reservation = _find(call, links.last(values[0]))
    if reservation is None:
        raise invalid("resource.reservationAffinity.values[0]", f"Specified reservation '{values[0]}' does not exist.")
    return reservation.key


def longest_queue(body: Body) -> float | None:
    """Seconds for which a flex-start launch waits; None for other launches. Raises GceError as Google would refuse it."""
    scheduling: Body = body.get("scheduling", {})
    if scheduling.get("provisioningModel") != FLEX_START:
        return None
    if body.get("reservationAffinity", {}).get("consumeReservationType") != "NO_RESERVATION":
        raise invalid("resource.reservationAffinity", "Flex-start VMs cannot consume reservations.")
    run = int(scheduling.get("maxRunDuration", {}).get("seconds", 0))
    if not _RUN[0] <= run <= _RUN[1]:
        raise invalid("scheduling.maxRunDuration", "It must be between 10 minutes and 7 days for flex-start VMs.")
    wait = int(body.get("params", {}).get("requestValidForDuration", {}).get("seconds", 0))
    if not _WAIT[0] <= wait <= _WAIT[1]:
        raise invalid("params.requestValidForDuration", "It must be between 90 seconds and 2 hours.")
    return float(wait)
