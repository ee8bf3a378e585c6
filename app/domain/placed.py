"""Where a lease is placed, as JSON: stored exactly as the API shows it, so that showing a page of leases shapes nothing."""

from collections.abc import Mapping
from decimal import Decimal
from typing import Any

from app.domain.money import format_money
from app.domain.offerings import Gpu

_IMAGE = ("id", "name", "driver_version")


def hardware(gpu: Gpu, vcpus: int, memory_gib: Decimal, image: Mapping[str, str | None]) -> dict[str, Any]:
    """What stands there: also what an attempt remembers of its offering. `image`: id, name, driver_version, as far as known."""
    return {
        "gpu": {
            "model": gpu.model,
            "count": gpu.count,
            "memory_gib": gpu.memory_gib,
            "interconnect": gpu.interconnect,
        },
        "vcpus": vcpus,
        "memory_gib": float(memory_gib),
        "image": {name: image.get(name) for name in _IMAGE},
    }


def placement(
    where: Mapping[str, Any],
    facts: Mapping[str, Any],
    price_per_hour: Decimal,
    instance_id: str | None,
    *,
    extendable: bool = True,
) -> dict[str, Any]:
    """`where`: provider, account, region, zone, instance_type, market. `facts`: see `hardware`. Price in USD.

    `extendable`: False where the cloud itself ends the VM at the lease's end.
    """
    price = format_money(price_per_hour)
    return {**facts, **where, "price_per_hour": price, "instance_id": instance_id, "extendable": extendable}
