"""Requests for groups, and what can never succeed of them."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

from app.domain.groups.groups import GroupInterconnect, GroupPlacement, OnMemberLoss
from app.domain.lease_requests import LeaseRequest
from app.domain.offerings import Offering
from app.services.errors import FieldError, InvalidRequest, ServiceError, summarize
from app.services.leases.requests import CreateLease
from app.services.offering_cache import CatalogueSnapshot
from app.services.request_checks import CheckedRequest, check_request
from app.settings.providers import ProviderInfo, most_members, providers

LEAST_FORM_SECONDS = 60
MOST_FORM_SECONDS = 86_400
_SHOWN_TYPES = 10


@dataclass(frozen=True, slots=True, kw_only=True)
class CreateGroup:
    """A checked create call. `lease`: the request of each member, without a name. `form_seconds`: in one pool."""

    tenant_id: str | None
    name: str
    size: int
    min_size: int
    lease: CreateLease
    placement: GroupPlacement
    interconnect: GroupInterconnect
    form_seconds: int
    on_member_loss: OnMemberLoss


@contextmanager
def about_lease() -> Iterator[None]:
    """Errors of a lease request name its fields below `lease`, where the body of a group has them."""
    try:
        yield
    except ServiceError as error:
        raise within_lease(error) from None


def within_lease(error: ServiceError) -> ServiceError:
    """The same error with its fields below `lease`."""
    if not error.errors:
        return error
    moved = [FieldError(_moved(field_error.pointer), field_error.detail) for field_error in error.errors]
    detail = None if error.detail == summarize(error.errors) else error.detail
    return type(error)(detail, errors=moved, extra=error.extra, retryable=error.retryable)


def _moved(pointer: str) -> str:
    body, own = "#/body/", ("#/body/tenant_id", "#/body/lease/")
    return (
        f"{body}lease/{pointer.removeprefix(body)}"
        if pointer.startswith(body) and not pointer.startswith(own)
        else pointer
    )


def check_group(snapshot: CatalogueSnapshot, new: CreateGroup, checked: CheckedRequest) -> CheckedRequest:
    """The checked request of a member with the offerings that serve the whole group.

    Raises InvalidRequest when offerings fit each member, but none fits the group.
    """
    fitting = checked.ranked.ranking.candidates
    if checked.refusal is not None or not fitting:
        return checked
    candidates = tuple(offering for offering in fitting if _has_interconnect(offering, new.interconnect))
    if not candidates:
        raise _no_interconnect(snapshot, fitting)
    candidates = _large_enough(candidates, new.size, new.placement)
    if len(candidates) == len(fitting):
        return checked
    return replace(checked, ranked=checked.ranked.only(candidates))


def check_growth(snapshot: CatalogueSnapshot, row: Any, size: int) -> None:
    """Checks the larger size of a group, a row of `lists.lock`, as `check_group` does at its creation.

    A group with a pool grows there. Raises InvalidRequest.
    """
    if row.pool is not None:
        account = row.pool["account"]
        places = tuple(offering for offering in snapshot.offerings if offering.key.account == account)
    else:
        lease = CreateLease(tenant_id=row.tenant_id, request=LeaseRequest.from_json(row.lease), startup_script=None)
        fitting = check_request(snapshot, row.tenant_id, lease).ranked.ranking.candidates
        places = tuple(
            offering for offering in fitting if _has_interconnect(offering, GroupInterconnect(row.interconnect))
        )
    if places:
        _large_enough(places, size, GroupPlacement(row.placement))


def _large_enough(offerings: tuple[Offering, ...], size: int, placement: GroupPlacement) -> tuple[Offering, ...]:
    """The offerings at providers that place so many VMs together. Raises InvalidRequest when there is none."""
    large = tuple(offering for offering in offerings if size <= most_members(offering.provider, placement))
    if not large:
        raise _too_large(placement, offerings)
    return large


def _has_interconnect(offering: Offering, interconnect: GroupInterconnect) -> bool:
    return interconnect is not GroupInterconnect.REQUIRED or offering.type.network_fabric is not None


def _no_interconnect(snapshot: CatalogueSnapshot, fitting: tuple[Offering, ...]) -> InvalidRequest:
    known = sorted({o.type.name for o in snapshot.offerings if o.type.network_fabric is not None})
    examples = ", ".join(known[:_SHOWN_TYPES]) + (
        f" and {len(known) - _SHOWN_TYPES} more" if len(known) > _SHOWN_TYPES else ""
    )
    have = f"instance types with one are {examples}" if known else "no instance type of this installation has one"
    detail = f"is required, and no offering that fits `lease` has a network fabric between VMs: {have}{_to_configure(fitting)}"
    return InvalidRequest(errors=[FieldError("#/body/interconnect", detail)], extra={"known": known})


def _to_configure(fitting: tuple[Offering, ...]) -> str:
    """What an operator can configure so that a type of these has a fabric; empty where no setting is needed."""
    settings = {info.label: info.fabric_settings for info in map(_provider, fitting) if info and info.fabric_settings}
    named = (f"at {label}, types have one where the account sets {' and '.join(s)}" for label, s in settings.items())
    return "".join(f"; {sentence}" for sentence in named)


def _provider(offering: Offering) -> ProviderInfo | None:
    return providers().get(offering.provider)


def _too_large(placement: GroupPlacement, fitting: tuple[Offering, ...]) -> InvalidRequest:
    limits = {offering.provider: most_members(offering.provider, placement) for offering in fitting}
    most = ", ".join(f"{limit} at {providers()[name].label}" for name, limit in sorted(limits.items()))
    detail = f"is more than a cluster can have: at most {most}"
    return InvalidRequest(errors=[FieldError("#/body/size", detail)], extra={"limits": limits})
