"""The request of a lease. The database stores it as JSON, and the API returns the stored form."""

from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field, fields
from decimal import Decimal
from enum import StrEnum
from typing import Any, Self

from app.domain.offerings import GpuVendor, Interconnect, MarketWish


class OnInterruption(StrEnum):
    """What happens to a lease when the provider interrupts its spot VM."""

    END = "end"
    REPLACE = "replace"


@dataclass(frozen=True, slots=True, kw_only=True)
class GpuRequest:
    """The GPUs of one VM. `count` and `memory_gib` (of each GPU) are minimums; None means any."""

    model: str
    count: int = 1
    memory_gib: int | None = None
    interconnect: Interconnect | None = None
    vendor: GpuVendor | None = None

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> Self:
        """Reads a stored `gpu`. An absent or null member gets its default."""
        given = {name: member for name, member in value.items() if member is not None}
        return cls(**{name: _GPU_PARSERS.get(name, _parse)(member) for name, member in given.items()})

    def as_json(self) -> dict[str, Any]:
        """Leaves out members of `_LATER` that are None: the previous version reads no unknown member of `gpu`."""
        return {name: value for name, value in asdict(self).items() if value is not None or name not in _LATER}


@dataclass(frozen=True, slots=True, kw_only=True)
class LeaseRequest:
    """A validated request with its defaults filled in. None means any. `image` None is the account's default image.

    `min_vcpus`, `min_memory_gib` and `min_local_disk_gib` are those of the whole VM.
    `max_price_per_hour`: USD for the whole VM. `allowed_cidrs`: networks that may reach the SSH port; with None the
    account's own firewall decides. `ssh_keys`: names of the stored keys among `ssh_public_keys`. The start-up script is
    stored separately: it is a secret.
    """

    ttl_seconds: int
    wait_seconds: int = 0
    name: str | None = None
    labels: Mapping[str, str] = field(default_factory=dict)
    gpu: GpuRequest | None = None
    instance_types: tuple[str, ...] | None = None
    min_vcpus: int | None = None
    min_memory_gib: int | None = None
    min_local_disk_gib: int | None = None
    market: MarketWish | None = None
    providers: tuple[str, ...] | None = None
    regions: tuple[str, ...] | None = None
    max_price_per_hour: Decimal | None = None
    ssh_public_keys: tuple[str, ...] = ()
    ssh_keys: tuple[str, ...] = ()
    image: str | None = None
    disk_gib: int = 100
    public_ip: bool = True
    allowed_cidrs: tuple[str, ...] | None = None
    on_interruption: OnInterruption = OnInterruption.END

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> Self:
        """Reads what `as_json` returned. An absent or null member gets its default: earlier versions stored fewer."""
        given = {name: value[name] for name in _NAMES if value.get(name) is not None}
        return cls(**{name: _PARSERS.get(name, _parse)(member) for name, member in given.items()})

    def as_json(self) -> dict[str, Any]:
        """The form that the database stores and the API returns. Amounts are text without an exponent."""
        return {name: _format(getattr(self, name)) for name in _NAMES}


_NAMES = tuple(member.name for member in fields(LeaseRequest))
_PARSERS: Mapping[str, Callable[[Any], Any]] = {
    "gpu": GpuRequest.from_json,
    "market": MarketWish,
    "max_price_per_hour": Decimal,
    "on_interruption": OnInterruption,
}
_LATER = ("interconnect", "vendor")
_GPU_PARSERS: Mapping[str, Callable[[Any], Any]] = {"interconnect": Interconnect, "vendor": GpuVendor}


def _parse(member: Any) -> Any:
    return tuple(member) if isinstance(member, list) else member


def _format(member: Any) -> Any:
    match member:
        case tuple():
            return list(member)
        case Decimal():
            return f"{member:f}"
        case StrEnum():
            return str(member)
        case Mapping():
            return dict(member)
        case GpuRequest():
            return member.as_json()
    return member
