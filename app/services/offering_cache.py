"""A cache of the offering catalogue in this process, at most `catalogue_cache_seconds` old."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from decimal import Decimal
from functools import cached_property
from typing import Any, Self

from sqlalchemy import func, select

from app.db.core.engine import ApiDatabase
from app.db.fleet import account_states, gpu_benchmarks, offerings, reservations
from app.domain import lease_offerings, placement, quotas
from app.domain.explanations.near_misses import NearMisses, find_near_misses
from app.domain.gpus.benchmarks import MeasuredPerformance
from app.domain.lease_offerings import is_visible
from app.domain.offerings import Offering
from app.domain.placement import Ranking, Requirements
from app.domain.rates import least_rate
from app.domain.reservations import Term
from app.domain.vm_parts import PartsRequest
from app.services.ttl_cache import TtlCache

_Measured = Mapping[tuple[str, str], MeasuredPerformance]
"""By provider and instance type."""
_MOST_RANKINGS = 256
"""Maximum number of cached rankings per snapshot. Tenants mostly send the same few requirements."""
_MEASURED_SECONDS = 60.0
"""Benchmarks are read less often than offerings: summing them up takes longer, and nothing is launched by them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RankingWithQuota:
    """A ranking and what admission claims for it: `minimum` of quota, and budget at `least_rate`, USD an hour."""

    ranking: Ranking
    parts: PartsRequest
    minimum: quotas.Amounts
    least_rate: Decimal

    def only(self, candidates: tuple[Offering, ...]) -> "RankingWithQuota":
        """The same with some of the candidates."""
        return RankingWithQuota.of(placement.Ranking(candidates=candidates, excluded=self.ranking.excluded), self.parts)

    @classmethod
    def of(cls, ranking: Ranking, parts: PartsRequest) -> Self:
        """The ranking of a request with these parts."""
        candidates = ranking.candidates
        return cls(
            ranking=ranking,
            parts=parts,
            minimum=quotas.minimum(candidates, parts),
            least_rate=least_rate(candidates, parts),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class ConfiguredRegion:
    """A region of an account in use. `refreshed`: the catalogue has its offerings. `catalogue_error`: why their last reading failed."""

    provider: str
    region: str
    account: str
    refreshed: bool = True
    catalogue_error: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class CatalogueNames:
    """What a request can name."""

    gpu_models: frozenset[str]
    regions: frozenset[str]
    instance_types: frozenset[str]


@dataclass(frozen=True)
class CatalogueSnapshot:
    """The whole catalogue at `as_of`, by the database's clock."""

    as_of: datetime
    offerings: tuple[Offering, ...]
    regions: tuple[ConfiguredRegion, ...] = ()
    _ranked: dict[Requirements, RankingWithQuota] = field(default_factory=dict, repr=False, compare=False)
    _missed: dict[Requirements, NearMisses] = field(default_factory=dict, repr=False, compare=False)

    def rank_for(self, requirements: Requirements, term: Term) -> RankingWithQuota:
        """The ranking for one lease, with what its tenant, its term, its spend cap and its quote allow."""
        ranked = self.rank(requirements)
        if not self._differs(term):
            return ranked
        ranking = lease_offerings.for_term(ranked.ranking, term, self.as_of, launching=False)
        return RankingWithQuota.of(ranking, requirements.parts)

    def rank(self, requirements: Requirements) -> RankingWithQuota:
        """As placement.rank, computed once for equal requirements."""
        known = self._ranked.get(requirements)
        if known is None:
            ranking = placement.rank(requirements, self.offerings, self.as_of)
            known = RankingWithQuota.of(ranking, requirements.parts)
            if len(self._ranked) < _MOST_RANKINGS:
                self._ranked[requirements] = known
        return known

    def names(self, tenant_id: str | None) -> CatalogueNames:
        """What a request of the tenant can name (None: of an operator)."""
        if not self._has_reservations:
            return self._names
        return self._names_of(o for o in self.offerings if is_visible(o, tenant_id))

    @cached_property
    def is_complete(self) -> bool:
        """Whether the offerings of every configured region are known."""
        known = {(o.key.account, o.key.region) for o in self.offerings}
        return bool(known) and all(
            region.refreshed or (region.account, region.region) in known for region in self.regions
        )

    def catalogue_error(self, *, operator: bool) -> str | None:
        """Why the offerings of some regions cannot be read. Only operators see the account and the provider's message."""
        failing = [region for region in self.regions if region.catalogue_error is not None]
        if not failing:
            return None
        first = failing[0]
        more = f" and of {len(failing) - 1} other regions" if len(failing) > 1 else ""
        sentence = f"The offerings of {first.provider} in {first.region}{more} cannot be read at present"
        cause = f"{sentence}: account {first.account}: {first.catalogue_error}" if operator else sentence
        return cause.rstrip(".") + "."

    @cached_property
    def _names(self) -> CatalogueNames:
        return self._names_of(self.offerings)

    def _names_of(self, visible: Iterable[Offering]) -> CatalogueNames:
        known = tuple(visible)
        return CatalogueNames(
            gpu_models=frozenset(o.type.gpu.model for o in known),
            regions=frozenset(o.key.region for o in known) | {region.region for region in self.regions},
            instance_types=frozenset(o.key.instance_type for o in known),
        )

    @cached_property
    def _has_reservations(self) -> bool:
        return any(offering.reservation is not None for offering in self.offerings)

    def _differs(self, term: Term) -> bool:
        """Whether the ranking for this term may differ from that of its requirements."""
        own = (term.spendable, term.max_rate, term.volume_place)
        return self._has_reservations or any(limit is not None for limit in own)

    def near_misses(self, requirements: Requirements, term: Term) -> NearMisses:
        """The excluded offerings of `rank_for`, grouped. Computed once for equal requirements, where terms make no difference."""
        if self._differs(term):
            return find_near_misses(requirements, self.rank_for(requirements, term).ranking)
        known = self._missed.get(requirements)
        if known is None:
            known = find_near_misses(requirements, self.rank(requirements).ranking)
            if len(self._missed) < _MOST_RANKINGS:
                self._missed[requirements] = known
        return known


class OfferingCache:
    """Reads the catalogue when a caller needs it and the cached one is too old. Concurrent callers share one read."""

    def __init__(self, database: ApiDatabase, *, cache_seconds: float) -> None:
        self._database = database
        self._cache = TtlCache(self._read, cache_seconds)
        self._measured = TtlCache(self._read_measured, _MEASURED_SECONDS)
        self._made: dict[tuple[str, ...], tuple[Any, MeasuredPerformance | None, Offering]] = {}

    async def snapshot(self) -> CatalogueSnapshot:
        """Raises DatabaseUnavailable."""
        return await self._cache.get()

    async def _read_measured(self) -> _Measured:
        async with self._database.transaction(None, read_only=True) as connection:
            return gpu_benchmarks.performance_by_type(await connection.execute(gpu_benchmarks.counted()))

    async def _read(self) -> CatalogueSnapshot:
        measured = await self._measured.get()
        async with self._database.transaction(None, read_only=True) as connection:
            as_of = (await connection.execute(select(func.now()))).scalar_one()
            rows = (await connection.execute(*offerings.candidates())).all()
            reserved = (await connection.execute(*reservations.candidates())).all()
            regions: Sequence[Any] = (await connection.execute(account_states.configured_regions())).mappings().all()
        every = (
            *self._listed(rows, measured),
            *(_with(reservations.reserved_offering(row), measured) for row in reserved),
        )
        return CatalogueSnapshot(as_of, every, tuple(ConfiguredRegion(**row) for row in regions))

    def _listed(self, rows: Iterable[Any], measured: _Measured) -> Iterable[Offering]:
        """One offering for each row. Most rows are as before, and making their offerings again takes the most time."""
        known, self._made = self._made, {}
        for row in rows:
            key = (row.account, row.region, row.zone, row.instance_type, row.market)
            performance = measured.get((row.provider, row.instance_type))
            made = known.get(key)
            if made is None or made[:2] != (row, performance):
                made = (row, performance, replace(offerings.offering_from_row(row), benchmark=performance))
            self._made[key] = made
        return (offering for _, _, offering in self._made.values())


def _with(offering: Offering, measured: _Measured) -> Offering:
    return replace(offering, benchmark=measured.get((offering.provider, offering.key.instance_type)))
