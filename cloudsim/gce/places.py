"""Projects, regions, zones and the machine types sold there."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import partial

from cloudsim.gce import links, views
from cloudsim.gce.call import API, Call, Result
from cloudsim.gce.catalog import METRICS, OVERALL, PROVIDER, SPOT_PREFIX, UNTOLD, accelerator, machine_type
from cloudsim.gce.errors import not_found
from cloudsim.gce.listing import Kind, ListEntry, after, aggregated, flat

MACHINE_TYPES = Kind("machineType", "machineTypes")
ACCELERATOR_TYPES = Kind("acceleratorType", "acceleratorTypes")
ZONES = Kind("zone", "items")
MACHINE_TYPES_AGGREGATED = "machineTypes.aggregatedList"
_UNCOUNTED = tuple(
    {"metric": metric, "limit": 40_960.0, "usage": 0.0}
    for metric in ("A2_CPUS", "SSD_TOTAL_GB", "HDB_TOTAL_GB", "LOCAL_SSD_TOTAL_GB", "IN_USE_ADDRESSES")
)
"""Limits that Google reports and that no launch here counts against."""
_EPOCH = "1969-12-31T16:00:00.000-08:00"


def project(call: Call) -> Result:
    """projects.get: its number and the limit over all regions."""
    limit = overall_limit(call)
    return {
        "kind": "compute#project",
        "id": links.number("project", call.project),
        "creationTimestamp": _EPOCH,
        "name": call.project,
        "quotas": [{"metric": OVERALL, "limit": float(limit), "usage": float(overall_used(call))}],
        "selfLink": f"{API}/projects/{call.project}",
        "defaultNetworkTier": "PREMIUM",
    }


def region(call: Call) -> Result:
    """regions.get: its zones and what may run there. Raises GceError notFound."""
    name = call.path["region"]
    zones = call.world.catalogs[PROVIDER].regions.get(name)
    if zones is None:
        raise not_found(f"projects/{call.project}/regions/{name}")
    reported = [prefix + metric for metric in METRICS for prefix in ("", SPOT_PREFIX) if prefix + metric not in UNTOLD]
    return {
        "kind": "compute#region",
        "id": links.number("region", name),
        "creationTimestamp": _EPOCH,
        "name": name,
        "description": name,
        "status": "UP",
        "zones": [links.zonal(call.project, zone) for zone in zones],
        "quotas": [*(_quota(call, name, metric) for metric in reported), *_UNCOUNTED],
        "selfLink": links.regional(call.project, name),
    }


def _quota(call: Call, region_name: str, metric: str) -> Result:
    key = (PROVIDER, call.project, region_name, metric)
    limit = call.world.quotas.limit(key, call.world.settings.default_quota_vcpus)
    return {"metric": metric, "limit": float(limit), "usage": float(call.world.quotas.used[key])}


def overall_limit(call: Call) -> int:
    """GPUs that the project may have in all regions together."""
    region_name = next(iter(call.world.catalogs[PROVIDER].regions))
    key = (PROVIDER, call.project, region_name, OVERALL)
    return call.world.quotas.limit(key, call.world.settings.default_quota_vcpus)


def overall_used(call: Call) -> int:
    """GPUs that the project has in all regions together."""
    return sum(
        used
        for (provider, account, _, _), used in call.world.quotas.used.items()
        if (provider, account) == (PROVIDER, call.project)
    )


def zones(call: Call) -> Result:
    """zones.list."""
    facts = call.world.catalogs[PROVIDER]
    start = after(call)

    def listed() -> Iterator[ListEntry]:
        for position, zone in enumerate(facts.zones, start=1):
            if position > start:
                yield ListEntry(position, zone, partial(_zone, call, zone))

    return flat(call, ZONES, listed(), "zones")


def _zone(call: Call, name: str) -> Result:
    return {
        "kind": "compute#zone",
        "id": links.number("zone", name),
        "creationTimestamp": _EPOCH,
        "name": name,
        "description": name,
        "status": "UP",
        "region": links.regional(call.project, str(call.world.catalogs[PROVIDER].region_of(name))),
        "selfLink": links.zonal(call.project, name),
    }


def machine_types(call: Call) -> Result:
    """machineTypes.aggregatedList: what each zone sells."""
    machines = {(zone, machine_type(name)): name for zone, name in sorted(call.world.offered[PROVIDER])}
    views_by_place = {
        (zone, kind): partial(views.machine_type, call.world, call.project, zone, name)
        for (zone, kind), name in machines.items()
    }
    return aggregated(call, MACHINE_TYPES, _listed(call, views_by_place), MACHINE_TYPES_AGGREGATED)


def accelerator_types(call: Call) -> Result:
    """acceleratorTypes.aggregatedList: which GPUs each zone has."""
    kinds = {(zone, accelerator(name)[0]) for zone, name in call.world.offered[PROVIDER]}
    views_by_place = {(zone, kind): partial(views.accelerator_type, call.project, zone, kind) for zone, kind in kinds}
    return aggregated(call, ACCELERATOR_TYPES, _listed(call, views_by_place), "acceleratorTypes.aggregatedList")


def _listed(call: Call, views_by_place: Mapping[tuple[str, str], Callable[[], Result]]) -> Iterator[ListEntry]:
    start = after(call)
    for position, (zone, kind) in enumerate(sorted(views_by_place), start=1):
        if position > start:
            yield ListEntry(position, zone, views_by_place[zone, kind])
