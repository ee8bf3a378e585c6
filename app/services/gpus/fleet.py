"""The fleet now: GPUs that are paid for and GPUs in use, and the newest samples of all leases."""

from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

import orjson

from app.db.gpus import fleet as statements
from app.domain.idleness import IDLE_PERCENT, STALE_AFTER
from app.services.context import ServiceContext
from app.services.principal import Principal

MOST_LISTED = 1000
"""Leases in one report of the fleet. The sums count all of them."""
MOST_REPORTED = 10_000
_UNHEALTHY = ("failing", "degraded")


@dataclass(frozen=True, slots=True, kw_only=True)
class FleetLease:
    """A lease that is billed now. `gpus`: the utilization of each GPU; None: unknown."""

    lease_id: str
    name: str
    gpu_model: str | None
    gpus: Sequence[int | None]
    state: str
    health: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Fleet:
    """GPUs by what is known of them. `idle_cost_per_hour`: USD, the share of the idle GPUs in the rates of their leases."""

    gpus_paid: int
    gpus_in_use: int
    gpus_idle: int
    gpus_unknown: int
    idle_cost_per_hour: Decimal
    leases: Sequence[FleetLease]


class GpuFleetService:
    """Reads what agents reported last. An old sample says nothing about the present."""

    def __init__(self, context: ServiceContext) -> None:
        self._database = context.database
        self._stale_seconds = float(STALE_AFTER * context.settings.sample_seconds)

    async def fleet(self, principal: Principal) -> Fleet:
        """Of the caller's tenant; of all tenants for operators."""
        rows = await self._database.fetch(principal.tenant_id, statements.PAID)
        paid = in_use = idle = 0
        idle_cost = Decimal(0)
        leases: list[FleetLease] = []
        for row in rows:
            count = row["gpu_count"] or 0
            percents = self._percents(row, count)
            idle_here = sum(1 for percent in percents if percent is not None and percent <= IDLE_PERCENT)
            paid += count
            idle += idle_here
            in_use += sum(1 for percent in percents if percent is not None) - idle_here
            if count:
                idle_cost += row["rate_per_hour"] * idle_here / count
            leases.append(_lease(row, percents))
        return Fleet(
            gpus_paid=paid,
            gpus_in_use=in_use,
            gpus_idle=idle,
            gpus_unknown=paid - in_use - idle,
            idle_cost_per_hour=idle_cost,
            leases=sorted(leases, key=_urgency)[:MOST_LISTED],
        )

    async def reporting(self, principal: Principal) -> list[dict[str, Any]]:
        """Rows of REPORTING: the caller's active leases; those of all tenants for operators. Old samples are left out."""
        rows = await self._database.fetch(principal.tenant_id, statements.REPORTING, limit=MOST_REPORTED)
        return [_parsed(row) for row in rows if row["age_seconds"] <= self._stale_seconds]

    def _percents(self, row: dict[str, Any], count: int) -> list[int | None]:
        """One for each GPU that is paid for. A GPU that the sample does not show is unknown."""
        known: Sequence[int | None] = []
        if row["age_seconds"] is not None and row["age_seconds"] <= self._stale_seconds:
            known = row["gpu_percents"] or []
        return [*known[:count], *[None] * (count - len(known))]


def _urgency(lease: FleetLease) -> int:
    """Failing GPUs come first, then idle ones, busy ones, and those of which nothing is known."""
    if lease.health in _UNHEALTHY:
        return _UNHEALTHY.index(lease.health)
    known = [percent for percent in lease.gpus if percent is not None]
    if not known:
        return len(_UNHEALTHY) + 2
    return len(_UNHEALTHY) + (min(known) > IDLE_PERCENT)


def _parsed(row: dict[str, Any]) -> dict[str, Any]:
    return {
        **row,
        **{name: orjson.loads(row[name] or "null") for name in ("proven", "sample", "xids", "metric_labels")},
    }


def _lease(row: dict[str, Any], percents: Sequence[int | None]) -> FleetLease:
    return FleetLease(
        lease_id=row["lease_id"],
        name=row["name"],
        gpu_model=row["gpu_model"],
        gpus=percents,
        state=row["state"],
        health=row["health"],
    )
