"""What can be leased, as this process last read it: at most `catalogue_cache_seconds` old."""

from dataclasses import dataclass, field
from datetime import datetime

from sqlalchemy import func, select

from app.db.core.engine import ApiDatabase
from app.db.fleet import offerings
from app.domain import placement, quotas
from app.domain.offerings import Offering
from app.domain.placement import Ranking, Requirements
from app.services.ttl_cache import Kept

_MOST_RANKINGS = 256
"""Wishes whose ranking is kept per snapshot; tenants mostly ask for the same few."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Ranked:
    """A ranking and the quota that admission claims for it."""

    ranking: Ranking
    minimum: quotas.Amounts


@dataclass(frozen=True, slots=True)
class CatalogueSnapshot:
    """The whole catalogue at `as_of`, by the database's clock."""

    as_of: datetime
    offerings: tuple[Offering, ...]
    _ranked: dict[Requirements, Ranked] = field(default_factory=dict, repr=False, compare=False)

    def rank(self, wish: Requirements) -> Ranked:
        """As placement.rank; computed once per wish."""
        known = self._ranked.get(wish)
        if known is None:
            ranking = placement.rank(wish, self.offerings, self.as_of)
            known = Ranked(ranking=ranking, minimum=quotas.minimum(ranking.candidates))
            if len(self._ranked) < _MOST_RANKINGS:
                self._ranked[wish] = known
        return known


class OfferingCache:
    """Read when asked for and too old; concurrent askers wait for one reading."""

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
        return CatalogueSnapshot(as_of, tuple(offerings.offering_from_row(row) for row in rows))
