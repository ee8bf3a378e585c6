"""The request of a lease: its values, its form for callers, and the form that the database stores."""

from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field, fields
from decimal import Decimal
from enum import StrEnum
from typing import Any, Self

from app.domain.offerings import GpuVendor, Interconnect, MarketPreference
from app.domain.vm_parts import DEFAULT_DISK_GIB, PartsRequest
from app.domain.volumes import VolumeMount


class OnInterruption(StrEnum):
    """What happens to a lease when the provider interrupts its spot VM."""

    END = "end"
    REPLACE = "replace"


class ProofMode(StrEnum):
    """Whether the VM must prove its GPUs before the lease becomes active.

    `auto`: a failed proof replaces the VM, and a missing one does not. `required`: a missing proof is a failed one.
    `off`: no proof is needed.
    """

    AUTO = "auto"
    REQUIRED = "required"
    OFF = "off"


class OnGpuFailure(StrEnum):
    """What happens to an active lease when a GPU fails. `notify`: only an event and the lease's health report it."""

    NOTIFY = "notify"
    REBOOT = "reboot"
    REPLACE = "replace"
    END = "end"


class IdleAction(StrEnum):
    """What happens to a lease whose GPUs are idle."""

    NOTIFY = "notify"
    END = "end"


class BenchmarkMode(StrEnum):
    """Whether the VM measures its GPUs. `quick` takes less than a minute of billed time."""

    OFF = "off"
    QUICK = "quick"


SHORTEST_IDLE_SECONDS = 900


@dataclass(frozen=True, slots=True, kw_only=True)
class IdleRule:
    """The lease counts as idle after `after_seconds` of idle samples in a row."""

    after_seconds: int = 3600
    action: IdleAction = IdleAction.NOTIFY

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> Self:
        """Reads `as_json`. An absent or null member gets its default."""
        members = {name: member for name, member in value.items() if member is not None}
        return cls(
            after_seconds=members.get("after_seconds", 3600),
            action=IdleAction(members.get("action", IdleAction.NOTIFY)),
        )

    def as_json(self) -> dict[str, Any]:
        """{after_seconds, action}."""
        return {"after_seconds": self.after_seconds, "action": str(self.action)}


@dataclass(frozen=True, slots=True, kw_only=True)
class GpuRequest:
    """The GPUs of one VM. `count` is exact, and `min_count` is a minimum: one of the two is set, `count` 1 by default.

    `memory_gib` (of each GPU) is a minimum. None means any.
    """

    model: str
    count: int | None = None
    min_count: int | None = None
    memory_gib: int | None = None
    interconnect: Interconnect | None = None
    vendor: GpuVendor | None = None

    def __post_init__(self) -> None:
        if self.count is not None and self.min_count is not None:
            raise ValueError("count and min_count exclude each other")
        if self.count is None and self.min_count is None:
            object.__setattr__(self, "count", 1)

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> Self:
        """Reads `as_json`. An absent or null member gets its default."""
        members = {name: member for name, member in value.items() if member is not None}
        return cls(**{name: _GPU_PARSERS.get(name, _parse)(member) for name, member in members.items()})

    def as_json(self) -> dict[str, Any]:
        """The form that callers send, the API shows and the database stores."""
        return {name: value for name, value in asdict(self).items() if value is not None or name not in _IF_REQUESTED}


@dataclass(frozen=True, slots=True, kw_only=True)
class LeaseRequest:
    """A validated request with its defaults filled in. None means any. `image` None is the account's default image.

    `min_vcpus`, `min_memory_gib` and `min_local_disk_gib` are those of the whole VM.
    `max_price_per_hour`: USD with all parts. `allowed_cidrs`: networks that may reach the SSH port; with None the
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
    market: MarketPreference = MarketPreference.ON_DEMAND
    providers: tuple[str, ...] | None = None
    regions: tuple[str, ...] | None = None
    max_price_per_hour: Decimal | None = None
    ssh_public_keys: tuple[str, ...] = ()
    ssh_keys: tuple[str, ...] = ()
    image: str | None = None
    disk_gib: int = DEFAULT_DISK_GIB
    public_ip: bool = True
    allowed_cidrs: tuple[str, ...] | None = None
    on_interruption: OnInterruption = OnInterruption.END
    proof: ProofMode = ProofMode.AUTO
    on_gpu_failure: OnGpuFailure = OnGpuFailure.NOTIFY
    idle: IdleRule | None = None
    benchmark: BenchmarkMode = BenchmarkMode.OFF
    volumes: tuple[VolumeMount, ...] = ()

    @property
    def parts(self) -> PartsRequest:
        """What decides the size of the VM's disks and whether it gets a public address."""
        return PartsRequest(disk_gib=self.disk_gib, public_ip=self.public_ip, image=self.image)

    @property
    def wants_agent(self) -> bool:
        """Whether the VM needs an agent: for the proof, for the benchmark, or to find idleness."""
        return self.proof is not ProofMode.OFF or self.idle is not None or self.benchmark is not BenchmarkMode.OFF

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> Self:
        """Reads `as_json`. An absent or null member gets its default."""
        members = {name: value[name] for name in _NAMES if value.get(name) is not None}
        return cls(**{name: _PARSERS.get(name, _parse)(member) for name, member in members.items()})

    def as_json(self) -> dict[str, Any]:
        """The form that callers send, the API shows and the database stores. Amounts are text without an exponent."""
        return {name: _format(getattr(self, name)) for name in _NAMES}


_NAMES = tuple(member.name for member in fields(LeaseRequest))
_PARSERS: Mapping[str, Callable[[Any], Any]] = {
    "gpu": GpuRequest.from_json,
    "market": MarketPreference,
    "max_price_per_hour": Decimal,
    "on_interruption": OnInterruption,
    "proof": ProofMode,
    "on_gpu_failure": OnGpuFailure,
    "idle": IdleRule.from_json,
    "benchmark": BenchmarkMode,
    "volumes": lambda mounts: tuple(VolumeMount.from_json(mount) for mount in mounts),
}
_IF_REQUESTED = ("interconnect", "vendor")
"""Members that the API shows only if they were requested."""
_GPU_PARSERS: Mapping[str, Callable[[Any], Any]] = {"interconnect": Interconnect, "vendor": GpuVendor}


def _parse(member: Any) -> Any:
    return tuple(member) if isinstance(member, list) else member


def _format(member: Any) -> Any:
    match member:
        case tuple():
            return [_format(entry) for entry in member]
        case Decimal():
            return f"{member:f}"
        case StrEnum():
            return str(member)
        case Mapping():
            return dict(member)
        case GpuRequest() | IdleRule() | VolumeMount():
            return member.as_json()
    return member
