"""What a subscription may use: sizes and limits."""

from __future__ import annotations

import re

from cloudsim.arm import quotas
from cloudsim.arm.call import Answer, Call, Document
from cloudsim.arm.catalog import GIB, PROVIDER, QUOTA_NAMES, REGIONS, family, zones_of
from cloudsim.arm.errors import ArmError
from cloudsim.world import MachineType

_FILTER = re.compile(r"location eq '([A-Za-z0-9 ]+)'")


def skus(call: Call) -> Answer:
    """All sizes that Azure has in a region; those that are not sold there carry a restriction."""
    match = _FILTER.fullmatch(call.query.get("$filter", ""))
    if match is None:
        raise ArmError("InvalidParameter", "Only the filter location eq '…' is simulated.")
    region = match[1].lower()
    machines = call.world.catalogs[PROVIDER].machines.values() if region in REGIONS else ()
    return Answer({"value": [*(_sku(call, region, machine) for machine in machines), _disk_sku(region)]})


def _sku(call: Call, region: str, machine: MachineType) -> Document:
    sold, catalog = call.world.offered[PROVIDER], call.world.catalogs[PROVIDER]
    zones = zones_of(region, {*sold, *catalog.offered}, machine.name)
    shut = [number for number in zones if (f"{region}-{number}", machine.name) not in sold]
    closed = len(shut) == len(zones) and (region, machine.name) not in sold
    facts = {
        "vCPUs": machine.vcpus,
        "MemoryGB": machine.memory_mib // GIB,
        "GPUs": machine.gpu.count,
        "LowPriorityCapable": "True",
    }
    restrictions = [_restriction("Location", region)] if closed else []
    if shut:
        restrictions.append(_restriction("Zone", region, shut))
    return {
        "resourceType": "virtualMachines",
        "name": machine.name,
        "tier": "Standard",
        "size": machine.name.removeprefix("Standard_"),
        "family": family(machine.name),
        "locations": [region],
        "locationInfo": [{"location": region, "zones": zones, "zoneDetails": []}],
        "capabilities": [{"name": name, "value": str(value)} for name, value in facts.items()],
        "restrictions": restrictions,
    }


def _restriction(kind: str, region: str, zones: list[str] | None = None) -> Document:
    """What is not sold to the subscription: a region or some of its zones."""
    info = {"locations": [region]} | ({"zones": zones} if zones else {})
    return {
        "type": kind,
        "values": [region],
        "restrictionInfo": info,
        "reasonCode": "NotAvailableForSubscription",
    }


def _disk_sku(region: str) -> Document:
    place = [{"location": region, "zones": [], "zoneDetails": []}]
    return {
        "resourceType": "disks",
        "name": "Premium_LRS",
        "locations": [region],
        "locationInfo": place,
        "restrictions": [],
    }


def usages(call: Call) -> Answer:
    """Limits and use of the families, and of things that are no GPU's."""
    region = call.path["location"]
    if region not in REGIONS:
        raise ArmError("LocationNotAvailableForResourceType", f"The provided location '{region}' is not available.")
    rows = [{"unit": "Count", "currentValue": 0, "limit": 2_500, "name": {"value": "availabilitySets"}}]
    for code, name in QUOTA_NAMES.items():
        place = (call.world, call.subscription, region, code)
        values = {"currentValue": quotas.used(*place), "limit": quotas.limit(*place)}
        rows.append({"unit": "Count", **values, "name": {"value": code, "localizedValue": name}})
    return Answer({"value": rows})
