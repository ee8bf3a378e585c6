"""A cache of the offering catalogue in this process, at most `catalogue_cache_seconds` old."""

from dataclasses import dataclass, field
from datetime import datetime
from functools import cached_property

from sqlalchemy import func, select

from app.db.core.engine import ApiDatabase
from app.db.fleet import offerings, reservations
from app.domain import placement, quotas, reserved_offerings
from app.domain.near_misses import NearMisses, find_near_misses
from app.domain.offerings import Offering
from app.domain.placement import Ranking, Requirements
from app.domain.reservations import Term
from app.services.ttl_cache import Kept

_MOST_RANKINGS = 256
"""Maximum number of cached rankings per snapshot. Tenants mostly send the same few requirements."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Ranked:
    """A ranking and the quota that admission claims for it."""

    ranking: Ranking
    minimum: quotas.Amounts


@dataclass(frozen=True)
class CatalogueSnapshot:
    """The whole catalogue at `as_of`, by the database's clock."""

    as_of: datetime
    offerings: tuple[Offering, ...]
    _ranked: dict[Requirements, Ranked] = field(default_factory=dict, repr=False, compare=False)
    _missed: dict[Requirements, NearMisses] = field(default_factory=dict, repr=False, compare=False)

    def rank_for(self, wish: Requirements, term: Term) -> Ranked:
        """The ranking for one lease, with the reservations that its tenant may use."""
        ranked = self.rank(wish)
        if not self._has_reservations:
            return ranked
        ranking = reserved_offerings.for_term(ranked.ranking, term, self.as_of, launching=False)
        return Ranked(ranking=ranking, minimum=quotas.minimum(ranking.candidates))

    def rank(self, wish: Requirements) -> Ranked:
        """As placement.rank, computed once for equal requirements."""
        known = self._ranked.get(wish)
        if known is None:
            ranking = placement.rank(wish, self.offerings, self.as_of)
            known = Ranked(ranking=ranking, minimum=quotas.minimum(ranking.candidates))
            if len(self._ranked) < _MOST_RANKINGS:
                self._ranked[wish] = known
        return known

    @cached_property
    def _has_reservations(self) -> bool:
        return any(offering.reservation is not None for offering in self.offerings)

    def near_misses(self, wish: Requirements, term: Term) -> NearMisses:
        """The excluded offerings of `rank_for`, grouped. Without reservations, computed once for equal requirements."""
        if self._has_reservations:
            return find_near_misses(wish, self.rank_for(wish, term).ranking)
        known = self._missed.get(wish)
        if known is None:
            known = find_near_misses(wish, self.rank(wish).ranking)
            if len(self._missed) < _MOST_RANKINGS:
                self._missed[wish] = known
        return known


class OfferingCache:
    """Reads the catalogue when a caller needs it and the cached one is too old. Concurrent callers share one read."""

    def __init__(self, database: ApiDatabase, *, cache_seconds: float) -> None:
        self._database = database
        self._kept = Kept(self._read, cache_seconds)

    async def snapshot(self) -> CatalogueSnapshot:
        """Raises DatabaseUnavailable."""
        return await self._kept.get()

    async def _read(self) -> CatalogueSnapshot:
        async with self._database.transaction(None, read_only=True) as connection:
            as_of = (await connection.execute(select(func.now()))).scalar_one()
            rows = (await connection.execute(offerings.candidates())).all()
            reserved = (await connection.execute(reservations.candidates())).all()
        listed = (offerings.offering_from_row(row) for row in rows)
        return CatalogueSnapshot(as_of, (*listed, *map(reservations.reserved_offering, reserved)))
