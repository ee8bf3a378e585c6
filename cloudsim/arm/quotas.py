"""The quotas of a region. An on-demand VM counts against its family and the region, a spot VM against those of spot alone."""

from __future__ import annotations

from cloudsim.arm.catalog import CORES, PROVIDER, QUOTA_NAMES, SPOT_CORES
from cloudsim.world import Market, Order, QuotaExceeded, World


def used(world: World, subscription: str, region: str, code: str) -> int:
    """The vCPUs that count against a quota."""
    families = QUOTA_NAMES.keys() - {CORES, SPOT_CORES}
    codes = families if code == CORES else {code}
    return sum(world.quotas.used[PROVIDER, subscription, region, counted_code] for counted_code in codes)


def limit(world: World, subscription: str, region: str, code: str) -> int:
    """The vCPUs that a quota allows."""
    return world.quotas.limit((PROVIDER, subscription, region, code), world.settings.default_quota_vcpus)


def check_region(world: World, order: Order) -> None:
    """Raises QuotaExceeded when the region has no room for one more on-demand VM. The world checks the family."""
    if order.market is not Market.ON_DEMAND:
        return
    requested = world.machine(PROVIDER, order.instance_type).counted
    place = (world, order.account, order.region, CORES)
    if used(*place) + requested > limit(*place):
        raise QuotaExceeded(CORES, limit(*place), used(*place), requested)
