"""Reservations and flex-start: what is free in a reservation, and how a launch uses it or waits in Google's queue.

Flex-start is no reservation but a queue: Google keeps a launch until it has capacity for it (Dynamic Workload Scheduler).
"""

from collections.abc import Callable, Iterator, Sequence
from typing import Any

from app.domain.offerings import InstanceType
from app.settings.reservations import ReservationSettings
from workers.providers.common.batch import answered
from workers.providers.errors import NotFound, NotOffered
from workers.providers.gcp import catalogue
from workers.providers.gcp.clients import GcpClients
from workers.providers.gcp.ids import last
from workers.providers.gcp.sdk import Reservation, ReservationsClient
from workers.providers.gcp.settings import FLEX_START, RESERVATION_BOUND
from workers.providers.gcp.vms import BOUND_MODEL, FLEX_START_MODEL, time_of
from workers.providers.types import LaunchSpec, ObservedReservation

SHORTEST_WAIT, LONGEST_WAIT = 90, 7200
"""Seconds that a launch can wait in the queue (requestValidForDuration)."""
SHORTEST_RUN, LONGEST_RUN = 600, 7 * 86_400
"""Seconds that a flex-start VM can run (maxRunDuration).

Source of the four: Compute Engine guide, "Create a Flex-start VM".
"""
_BY_NAME = "compute.googleapis.com/reservation-name"
_READY = "READY"


def observed(
    clients: GcpClients,
    configured: Sequence[ReservationSettings],
    type_in: Callable[[ReservationSettings], InstanceType | None],
) -> Iterator[ObservedReservation]:
    """The configured reservations, one call each. Flex-start needs no call.

    `type_in`: the type of a reservation as the account has it there; None: it is not in the catalogue.
    """
    known: dict[str, ReservationSettings] = {}
    types: dict[str, InstanceType] = {}
    for settings in configured:
        kind = type_in(settings)
        if kind is not None:
            known[settings.name], types[settings.name] = settings, kind
    for settings in known.values():
        if settings.kind == FLEX_START:
            kind = types[settings.name]
            yield ObservedReservation(
                name=settings.name, type=kind, shortest_wait=SHORTEST_WAIT, longest_run=LONGEST_RUN
            )
    named = [name for name, settings in known.items() if settings.kind != FLEX_START]
    for name, answer in answered(named, lambda name: _read(clients, known[name])).items():
        yield _observed(known[name], types[name], answer)


def _read(clients: GcpClients, settings: ReservationSettings) -> Reservation | None:
    """None for a reservation that does not exist. `id` may name another project, which shares it."""
    path = str(settings.id).split("/")
    other = {"project": path[1]} if path[0] == "projects" else {}
    name = path[3] if other else path[0]
    try:
        answer: Reservation = clients.ask(
            clients.of(ReservationsClient).get, zone=settings.zone, reservation=name, **other
        )
    except NotFound:
        return None
    return answer


def _observed(settings: ReservationSettings, kind: InstanceType, answer: Reservation | None) -> ObservedReservation:
    if answer is None:
        problem = f"Google shows no reservation {settings.id} in {settings.zone}"
        return ObservedReservation(name=settings.name, type=kind, slots=0, free=0, problem=problem)
    allocation = answer.specific_reservation
    return ObservedReservation(
        name=settings.name,
        type=kind,
        slots=allocation.count,
        free=max(0, allocation.count - allocation.in_use_count),
        ends_at=time_of(answer.delete_at_time),
        problem=_problem(settings, answer),
    )


def _problem(settings: ReservationSettings, answer: Reservation) -> str | None:
    properties = answer.specific_reservation.instance_properties
    gpus = {last(gpu.accelerator_type): gpu.accelerator_count for gpu in properties.guest_accelerators}
    theirs = catalogue.load().name_of(last(properties.machine_type), gpus)
    if theirs != settings.instance_type:
        return f"Google reports {settings.id} as {theirs}: correct its instance_type"
    return None if answer.status == _READY else f"Google reports its status as {answer.status}"


def launch_members(spec: LaunchSpec, reservation: ReservationSettings | None) -> dict[str, Any]:
    """The members of an instance that use a reservation. Raises NotOffered for one that is not configured."""
    if reservation is None:
        raise NotOffered("the reservation is no longer configured for the account", code="NoReservation")
    if reservation.kind == FLEX_START:
        seconds = min(max(spec.queue_seconds or 0, SHORTEST_WAIT), LONGEST_WAIT)
        return {
            "reservationAffinity": {"consumeReservationType": "NO_RESERVATION"},
            "params": {"requestValidForDuration": {"seconds": str(seconds)}},
        }
    affinity = {"consumeReservationType": "SPECIFIC_RESERVATION", "key": _BY_NAME, "values": [reservation.id]}
    return {"reservationAffinity": affinity}


def reserved_scheduling(spec: LaunchSpec, reservation: ReservationSettings | None) -> dict[str, Any]:
    """The members of `scheduling` of a VM whose kind of reservation decides them; none for other VMs.

    Google ends a VM that is bound to its reservation with the reservation, so such a VM has no time limit of its own.
    """
    kind = reservation.kind if reservation is not None else None
    if kind == RESERVATION_BOUND:
        return {"provisioningModel": BOUND_MODEL, "instanceTerminationAction": "DELETE"}
    if kind != FLEX_START:
        return {}
    seconds = min(max(spec.max_seconds or LONGEST_RUN, SHORTEST_RUN), LONGEST_RUN)
    return {
        "provisioningModel": FLEX_START_MODEL,
        "maxRunDuration": {"seconds": str(seconds)},
        "instanceTerminationAction": "DELETE",
    }
