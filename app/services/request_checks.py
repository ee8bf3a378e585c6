"""What can never succeed: names that the installation does not have, an image that no account has, a price cap too low."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from datetime import datetime
from decimal import Decimal
from difflib import get_close_matches

from app.domain.explanations.near_misses import NearMisses
from app.domain.gpus import models as gpu_models
from app.domain.lease_offerings import term_of
from app.domain.lease_requests import GpuRequest
from app.domain.money import format_money
from app.domain.offerings import Offering
from app.domain.placement import Exclusion, Ranking, Requirements
from app.domain.rates import least_rate
from app.domain.reservations import Term
from app.services.errors import (
    FieldError,
    InvalidRequest,
    PriceCapTooLow,
    ServiceError,
    UnknownGpuModel,
    UnknownInstanceType,
    UnknownRegion,
)
from app.services.leases.requests import CreateLease
from app.services.offering_cache import CatalogueNames, CatalogueSnapshot, RankingWithQuota

PASSING = frozenset({Exclusion.ACCOUNT, Exclusion.NO_PRICE, Exclusion.CORDONED})
"""Exclusions that end on their own or through an operator. The same request may fit later."""
_PERHAPS_PASSING = PASSING | {Exclusion.RESERVATION}


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckedRequest:
    """A create call and the offerings for it. `new` has the catalogue's names.

    `refusal`: the error of status 422 where no create of this request can succeed. `near`: the excluded offerings by
    reason, where there is no candidate. `snapshot`: the catalogue with which the request was compared.
    """

    new: CreateLease
    ranked: RankingWithQuota
    refusal: ServiceError | None = None
    near: NearMisses | None = None
    snapshot: CatalogueSnapshot

    @property
    def best(self) -> Offering | None:
        """The candidate that the lease tries first."""
        return next(iter(self.ranked.ranking.candidates), None)


def check_request(snapshot: CatalogueSnapshot, tenant_id: str, new: CreateLease) -> CheckedRequest:
    """Resolves the GPU model, ranks the offerings, and finds what the request can never get."""
    names = snapshot.names(tenant_id)
    unknown = next(_unknown_names(new, names, is_complete=snapshot.is_complete), None)
    if unknown is None and new.request.gpu is not None:
        new = replace(new, request=replace(new.request, gpu=_resolved(new.request.gpu, names)))
    term = request_term(new, tenant_id, snapshot.as_of)
    ranked = snapshot.rank_for(new.requirements, term)
    if unknown is not None or ranked.ranking.candidates:
        return CheckedRequest(new=new, ranked=ranked, refusal=unknown, snapshot=snapshot)
    never = _unknown_image(new, ranked.ranking) or _low_price_cap(snapshot, tenant_id, new, ranked.ranking)
    near = snapshot.near_misses(new.requirements, term)
    return CheckedRequest(new=new, ranked=ranked, refusal=never, near=near, snapshot=snapshot)


def request_term(new: CreateLease, tenant_id: str, now: datetime) -> Term:
    """What placement reads of a create call besides its requirements."""
    return term_of(
        new.request, tenant_id, now, spendable=new.max_cost, max_rate=new.max_rate, volume_place=new.volume_place
    )


def _resolved(gpu: GpuRequest, names: CatalogueNames) -> GpuRequest:
    """The request with the catalogue's name of the model, and with the memory that the spelling names."""
    if gpu.model in names.gpu_models:
        return gpu
    model = gpu_models.resolve(gpu.model, _models(names))
    if model is None:
        return gpu
    memory = [size for size in (gpu.memory_gib, model.memory_gib) if size is not None]
    return replace(gpu, model=model.name, memory_gib=max(memory, default=None))


def _models(names: CatalogueNames) -> frozenset[str]:
    """Models of the catalogue, and those that the program knows although this installation does not have them."""
    return names.gpu_models | gpu_models.ALIASES.keys()


def _unknown_names(new: CreateLease, names: CatalogueNames, *, is_complete: bool) -> Iterator[ServiceError]:
    """While the catalogue is incomplete, only what no catalogue can have is unknown."""
    request = new.request
    if not names.regions:
        return
    if request.gpu is not None:
        known = names.gpu_models if is_complete else _models(names)
        if request.gpu.model not in known and gpu_models.resolve(request.gpu.model, known) is None:
            yield _unknown_model(request.gpu.model, names)
    for number, region in enumerate(request.regions or ()):
        if region not in names.regions:
            yield _unknown_region(number, region, names)
    for number, name in enumerate(request.instance_types or ()):
        if is_complete and name not in names.instance_types:
            yield _unknown_type(number, name, names)


def _unknown_model(model: str, names: CatalogueNames) -> ServiceError:
    known, near = sorted(names.gpu_models), gpu_models.nearest(model, names.gpu_models)
    detail = f"names no GPU model of this installation: {_hint(model, near)}known are {', '.join(known)}"
    return UnknownGpuModel(errors=[FieldError("#/body/gpu/model", detail)], extra={"known": known, "nearest": near})


def _unknown_region(number: int, region: str, names: CatalogueNames) -> ServiceError:
    known, near = sorted(names.regions), _most_similar(region, names.regions)
    detail = f"names no region of this installation: {_guess(near)}GET /v1/regions lists them"
    pointer = f"#/body/regions/{number}"
    return UnknownRegion(errors=[FieldError(pointer, detail)], extra={"known": known, "nearest": near})


def _unknown_type(number: int, name: str, names: CatalogueNames) -> ServiceError:
    near = _most_similar(name, names.instance_types)
    detail = f"names no instance type of this installation: {_hint(name, near)}GET /v1/offerings lists them"
    return UnknownInstanceType(errors=[FieldError(f"#/body/instance_types/{number}", detail)], extra={"nearest": near})


def _hint(name: str, near: str | None) -> str:
    if gpu_models.is_arm64_system(name):
        return "it has Arm CPUs and needs another image, and gpulease launches x86-64 images only. "
    if gpu_models.is_confidential(name):
        return "it is a size of confidential VMs, and gpulease does not launch those. "
    return _guess(near)


def _guess(near: str | None) -> str:
    return "" if near is None else f"did you mean {near}? "


def _most_similar(name: str, known: Iterable[str]) -> str | None:
    by_form = {known_name.lower(): known_name for known_name in sorted(known)}
    similar = get_close_matches(name.lower(), by_form, n=1)
    return by_form[similar[0]] if similar else None


def _unknown_image(new: CreateLease, ranking: Ranking) -> ServiceError | None:
    """The refusal of an image that no account has. `ranking`: one without candidates."""
    image = new.request.image
    if image is None or not ranking.excluded or any(image in excluded.offering.images for excluded in ranking.excluded):
        return None
    detail = "names no image of any account: GET /v1/images lists them"
    return InvalidRequest(errors=[FieldError("#/body/image", detail)])


def _low_price_cap(
    snapshot: CatalogueSnapshot, tenant_id: str, new: CreateLease, ranking: Ranking
) -> ServiceError | None:
    """The refusal of a price cap, or of a quote, that alone excludes every offering. `ranking`: one without candidates.

    An offering that only a passing reason excludes may fit later, so the cap is not refused.
    """
    request, cap = new.request, new.request.max_price_per_hour
    if any(excluded.code in _PERHAPS_PASSING for excluded in ranking.excluded):
        return None
    term = request_term(new, tenant_id, snapshot.as_of)
    if new.max_rate is not None:
        fitting = snapshot.rank_for(new.requirements, replace(term, max_rate=None)).ranking.candidates
        if fitting:
            lowest = least_rate(fitting, request.parts)
            detail = (
                f"was {_usd(new.max_rate)} with all parts, and the cheapest offering that fits costs {_usd(lowest)}"
            )
            return _price_cap_too_low("quote_id", detail, lowest)
    if cap is None:
        return None
    without = Requirements.of(replace(request, max_price_per_hour=None))
    fitting = snapshot.rank_for(without, term).ranking.candidates
    if not fitting:
        return None
    lowest = least_rate(fitting, request.parts)
    detail = f"is {_usd(cap)}, and the cheapest offering that fits costs {_usd(lowest)}"
    return _price_cap_too_low("max_price_per_hour", detail, lowest)


def _price_cap_too_low(field: str, detail: str, lowest: Decimal) -> PriceCapTooLow:
    return PriceCapTooLow(
        errors=[FieldError(f"#/body/{field}", detail)],
        extra={"lowest_price_per_hour": format_money(lowest)},
    )


def _usd(amount: Decimal) -> str:
    return f"{format_money(amount)} USD an hour"
