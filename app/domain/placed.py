"""Where a lease is placed, as JSON: stored exactly as the API shows it, so that showing a page of leases shapes nothing."""

from collections.abc import Mapping
from typing import Any

from app.domain.offerings import InstanceType
from app.domain.rates import Rate

_IMAGE = ("id", "name", "driver_version")
_NOT_RESERVED = dict.fromkeys(("reservation", "reserved_until", "queued_at_provider"))


def type_facts(kind: InstanceType) -> dict[str, Any]:
    """The facts of an instance type as the API shows them, without its name."""
    gpu = kind.gpu
    return {
        "gpu": {
            "vendor": gpu.vendor,
            "model": gpu.model,
            "count": gpu.count,
            "memory_gib": gpu.memory_gib,
            "fraction": gpu.fraction,
            "interconnect": gpu.interconnect,
            "nvlink_generation": gpu.nvlink,
            "driver": gpu.driver,
        },
        "vcpus": kind.vcpus,
        "memory_gib": float(kind.memory_gib),
        "local_disk_gib": kind.local_disk_gib,
        "network": {
            "gbps": None if kind.network_gbps is None else float(kind.network_gbps),
            "fabric": kind.network_fabric,
        },
    }


def hardware(kind: InstanceType, image: Mapping[str, str | None]) -> dict[str, Any]:
    """The VM's type and image, also stored with an attempt. `image`: id, name, driver_version, as far as known."""
    return {**type_facts(kind), "image": {name: image.get(name) for name in _IMAGE}}


def placement(
    where: Mapping[str, Any],
    facts: Mapping[str, Any],
    rate: Rate,
    instance_id: str | None,
    *,
    extendable: bool = True,
) -> dict[str, Any]:
    """`where`: provider, account, region, zone, instance_type, market. `facts`: see `hardware`.

    `extendable`: False where the cloud itself ends the VM at the lease's end.
    """
    plan = {**rate.as_json(), "instance_id": instance_id, "extendable": extendable}
    return {**_NOT_RESERVED, **facts, **where, **plan}
