"""What a tenant asks for: the request of a lease, typed. It is stored as JSON and shown as it is stored."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from decimal import Decimal
from enum import StrEnum
from typing import Any, Self

from app.domain.offerings import MarketWish


class OnInterruption(StrEnum):
    """What happens to a lease whose spot VM the provider takes back."""

    END = "end"
    REPLACE = "replace"


@dataclass(frozen=True, slots=True, kw_only=True)
class GpuRequest:
    """The GPUs of one VM. `count` and `memory_gib` (of each GPU) are minimums; None means any."""

    model: str
    count: int = 1
    memory_gib: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class LeaseRequest:
    """A checked request with its defaults filled in. None means any; of `image`, the account's default one.

    `max_price_per_hour`: USD for the whole VM. `allowed_cidrs`: networks that may reach port 22; None leaves it to the
    account's own firewall. The start-up script is kept apart: it is a secret.
    """

    ttl_seconds: int
    wait_seconds: int = 0
    name: str | None = None
    labels: Mapping[str, str] = field(default_factory=dict)
    gpu: GpuRequest | None = None
    instance_types: tuple[str, ...] | None = None
    market: MarketWish | None = None
    providers: tuple[str, ...] | None = None
    regions: tuple[str, ...] | None = None
    max_price_per_hour: Decimal | None = None
    ssh_public_keys: tuple[str, ...] = ()
    image: str | None = None
    disk_gib: int = 100
    public_ip: bool = True
    allowed_cidrs: tuple[str, ...] | None = None
    on_interruption: OnInterruption = OnInterruption.END

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> Self:
        """Reads `as_json`, also of an earlier version, which has fewer members."""
        gpu, market, price = value.get("gpu"), value.get("market"), value.get("max_price_per_hour")
        return cls(
            ttl_seconds=int(value["ttl_seconds"]),
            wait_seconds=int(value.get("wait_seconds") or 0),
            name=value.get("name"),
            labels=value.get("labels") or {},
            gpu=GpuRequest(**gpu) if gpu else None,
            instance_types=_tuple(value.get("instance_types")),
            market=MarketWish(market) if market else None,
            providers=_tuple(value.get("providers")),
            regions=_tuple(value.get("regions")),
            max_price_per_hour=Decimal(price) if price is not None else None,
            ssh_public_keys=tuple(value.get("ssh_public_keys") or ()),
            image=value.get("image"),
            disk_gib=int(value.get("disk_gib", 100)),
            public_ip=bool(value.get("public_ip", True)),
            allowed_cidrs=_tuple(value.get("allowed_cidrs")),
            on_interruption=OnInterruption(value.get("on_interruption", OnInterruption.END)),
        )

    def as_json(self) -> dict[str, Any]:
        """As it is stored and shown: amounts as text without an exponent."""
        gpu, price = self.gpu, self.max_price_per_hour
        return {
            "name": self.name,
            "labels": dict(self.labels),
            "gpu": None if gpu is None else {"model": gpu.model, "count": gpu.count, "memory_gib": gpu.memory_gib},
            "instance_types": _list(self.instance_types),
            "market": None if self.market is None else str(self.market),
            "providers": _list(self.providers),
            "regions": _list(self.regions),
            "max_price_per_hour": None if price is None else f"{price:f}",
            "ttl_seconds": self.ttl_seconds,
            "wait_seconds": self.wait_seconds,
            "ssh_public_keys": list(self.ssh_public_keys),
            "image": self.image,
            "disk_gib": self.disk_gib,
            "public_ip": self.public_ip,
            "allowed_cidrs": _list(self.allowed_cidrs),
            "on_interruption": str(self.on_interruption),
        }


def _tuple(values: list[str] | None) -> tuple[str, ...] | None:
    return tuple(values) if values is not None else None


def _list(values: tuple[str, ...] | None) -> list[str] | None:
    return list(values) if values is not None else None
