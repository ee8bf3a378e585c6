"""Sizings: how much GPU memory a model needs, which GPUs of the catalogue have it, and a lease request for them."""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from math import ceil
from typing import Any

from app.db.core.engine import ApiDatabase
from app.domain import placement
from app.domain.lease_offerings import for_term, is_visible, term_of
from app.domain.lease_requests import GpuRequest, LeaseRequest
from app.domain.offerings import Interconnect, MarketPreference, Offering
from app.domain.placement import Requirements
from app.domain.rates import least_rate, rate_at
from app.domain.sizing.assumptions import assumptions
from app.domain.sizing.configs import shape_of
from app.domain.sizing.fits import GIB, GpuClass, GpuFit, fits, gpu_classes
from app.domain.sizing.known_models import known_shape
from app.domain.sizing.memory import MemoryParts, SizingTask, Workload, memory_parts, weight_bytes
from app.domain.sizing.shapes import ModelShape, SizingError, parse_parameters, typical_shape
from app.services.acting_tenant import known_tenant
from app.services.errors import FieldError, InvalidRequest
from app.services.offering_cache import OfferingCache
from app.services.principal import Principal

_MOST_OFFERINGS = 5
_LEAST_DISK_GIB = 100
_MOST_DISK_GIB = 16_384
_SYSTEM_DISK_GIB = 50


@dataclass(frozen=True, slots=True, kw_only=True)
class SizingRequest:
    """One of `model`, `config` and `parameters` describes the model. `workload`: the arguments of a Workload.

    `market` and `ttl_seconds` are those of the lease request in the answer.
    """

    workload: Mapping[str, Any]
    model: str | None = None
    config: Mapping[str, Any] | None = None
    parameters: int | str | None = None
    market: MarketPreference = MarketPreference.ON_DEMAND
    ttl_seconds: int = 3600
    tenant_id: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelSizing:
    """`fits` and `offerings`: the cheapest first, offerings with a lease request for them.

    `lease` is a request for the first offering. None: nothing fits.
    """

    shape: ModelShape
    parts: MemoryParts
    assumptions: tuple[str, ...]
    fits: tuple[GpuFit, ...]
    offerings: tuple[tuple[Offering, LeaseRequest], ...]
    lease: LeaseRequest | None
    as_of: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class _Choice:
    """A fit, the lease request for it, and its candidates in the order of placement."""

    fit: GpuFit
    request: LeaseRequest
    candidates: tuple[Offering, ...]


class SizingService:
    """Reads the catalogue as the caller's leases see it."""

    def __init__(self, database: ApiDatabase, catalogue: OfferingCache) -> None:
        self._database = database
        self._catalogue = catalogue

    async def size(self, principal: Principal, request: SizingRequest) -> ModelSizing:
        """Raises InvalidRequest, which names the field."""
        tenant_id = await self._tenant(principal, request)
        with _naming_fields():
            shape, workload = _shape(request), Workload(**request.workload)
            parts = memory_parts(shape, workload)
        snapshot = await self._catalogue.snapshot()
        groups = _by_class(o for o in snapshot.offerings if is_visible(o, tenant_id))
        disk_gib = _disk_gib(shape, workload)

        def choose(gpu: GpuClass, offered: list[Offering]) -> _Choice | None:
            """The smallest number of GPUs that can be had now; if none can, the smallest."""
            first: _Choice | None = None
            for fit in fits(shape, workload, gpu):
                lease_request = _lease(fit, request, disk_gib)
                same = (o for o in offered if o.type.gpu.count == fit.count)
                ranking = placement.rank(Requirements.of(lease_request), same, snapshot.as_of)
                term = term_of(lease_request, tenant_id or "", snapshot.as_of)
                candidates = for_term(ranking, term, snapshot.as_of, launching=False).candidates
                choice = _Choice(fit=fit, request=lease_request, candidates=candidates)
                if candidates:
                    return choice
                first = first or choice
            return first

        choices = [choice for gpu, offered in groups if (choice := choose(gpu, offered)) is not None]
        choices.sort(key=_price_of)
        best = next((choice for choice in choices if choice.candidates), None)
        return ModelSizing(
            shape=shape,
            parts=parts,
            assumptions=(*assumptions(shape, workload), *_of_catalogue(choices, request)),
            fits=tuple(choice.fit for choice in choices),
            offerings=_cheapest(choices),
            lease=None if best is None else best.request,
            as_of=snapshot.as_of,
        )

    async def _tenant(self, principal: Principal, request: SizingRequest) -> str | None:
        """None: an operator, who need not name a tenant here."""
        if principal.is_operator and request.tenant_id is None:
            return None
        return await known_tenant(self._database, principal, request.tenant_id)


@contextmanager
def _naming_fields() -> Iterator[None]:
    try:
        yield
    except SizingError as error:
        raise InvalidRequest(errors=[FieldError(f"#/body/{error.field}", error.detail)]) from error


def _shape(request: SizingRequest) -> ModelShape:
    if request.config is not None:
        return shape_of(request.config)
    if request.model is not None:
        return known_shape(request.model)
    return typical_shape(parse_parameters(request.parameters))


def _by_class(offerings: Iterable[Offering]) -> list[tuple[GpuClass, list[Offering]]]:
    groups: dict[tuple[str, int], list[Offering]] = defaultdict(list)
    for offering in offerings:
        groups[offering.type.gpu.model, offering.type.gpu.memory_gib].append(offering)
    return [(gpu, group) for group in groups.values() for gpu in gpu_classes(group)]


def _lease(fit: GpuFit, request: SizingRequest, disk_gib: int) -> LeaseRequest:
    linked = fit.interconnect not in {None, Interconnect.PCIE}
    gpu = GpuRequest(
        model=fit.gpu.model,
        count=fit.count,
        memory_gib=fit.gpu.memory_gib,
        interconnect=fit.interconnect if linked else None,
    )
    return LeaseRequest(ttl_seconds=request.ttl_seconds, gpu=gpu, market=request.market, disk_gib=disk_gib)


def _disk_gib(shape: ModelShape, workload: Workload) -> int:
    """Room for the system and the model's files; in training also for a checkpoint."""
    size = weight_bytes(shape, workload.precision)
    if workload.task is SizingTask.TRAINING:
        parts = memory_parts(shape, workload)
        size += parts.weights + parts.optimizer
    return min(max(_SYSTEM_DISK_GIB + ceil(1.2 * size / GIB), _LEAST_DISK_GIB), _MOST_DISK_GIB)


def _price_of(choice: _Choice) -> tuple[bool, Any, str, int]:
    """Sorts by the lowest price, then by name."""
    gpu = choice.fit.gpu
    return (not choice.candidates, least_rate(choice.candidates, choice.request.parts), gpu.model, gpu.memory_gib)


def _cheapest(choices: Iterable[_Choice]) -> tuple[tuple[Offering, LeaseRequest], ...]:
    """The cheapest zone of each instance type and market."""
    by_type: dict[tuple[str, str, str], tuple[Offering, LeaseRequest]] = {}
    every = ((o, choice.request) for choice in choices for o in choice.candidates)
    for offering, request in sorted(every, key=lambda entry: rate_at(entry[0], entry[1].parts).total):
        key = (offering.provider, offering.key.instance_type, str(offering.key.market))
        by_type.setdefault(key, (offering, request))
    return tuple(by_type.values())[:_MOST_OFFERINGS]


def _of_catalogue(choices: list[_Choice], request: SizingRequest) -> Iterator[str]:
    if not choices:
        yield (
            "No VM of this installation has enough GPU memory: lower the context, the concurrency or the batch, "
            "choose a smaller precision, or shard the model over several VMs."
        )
    elif not any(choice.candidates for choice in choices):
        yield f"No GPU that fits can be had in the market {request.market} at present: try the market any."
    if any(choice.fit.interconnect is Interconnect.PCIE for choice in choices):
        yield "Where the interconnect is PCIe, exchange between GPUs slows the work down."
