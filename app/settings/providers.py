"""The providers of this installation: what the program knows of each before it speaks to one.

A provider is a package that the entry point group `gpulease.providers` names. Its entry point is a `ProviderInfo`.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib.metadata import entry_points
from types import MappingProxyType
from typing import Annotated, Any, ClassVar, Self

from pydantic import BaseModel, ConfigDict, Field, field_validator, model_validator

from app.domain.groups.groups import MOST_MEMBERS, GroupPlacement
from app.domain.invoices import FocusDialect
from app.domain.labels import KEY_PATTERN
from app.domain.offerings import Market
from app.domain.vm_parts import PartsFacts
from app.settings.account_tags import TagRules, check_labels, check_tags
from app.settings.reservations import ReservationKind, ReservationSettings, check_reservations

GROUP = "gpulease.providers"

SSH_PORT = 22
"""The port of the SSH server, unless the account's images have another."""

LabelKey = Annotated[str, Field(max_length=317, pattern=f"^{KEY_PATTERN}$")]
"""What a lease may use as the key of a label."""
ImageName = Annotated[str, Field(pattern=r"^[a-z0-9][a-z0-9._-]{0,39}$")]

DriverName = Annotated[str, Field(pattern=r"^(nvidia_grid|amd_rocm)$")]
"""Of `app.domain.offerings.Driver`; the driver `nvidia` has the setting `image`."""


class AccountSettings(BaseModel):
    """What the accounts of every provider have. A provider's own class adds its fields, and `provider: Literal["<name>"]`.

    `tag_rules`: what the provider accepts as tags. A provider without rules accepts no operator's tags.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")
    tag_rules: ClassVar[TagRules | None] = None

    reservation_kinds: ClassVar[tuple[ReservationKind, ...]] = ()
    """The kinds of reservation that the provider has."""

    disk_sizes_gib: ClassVar[tuple[int, ...]] = ()
    """Sizes by which the provider bills network disks, ascending: a disk costs what the next larger size costs.
    Empty: a disk costs what its own size costs."""

    provider: str
    name: str = Field(pattern=r"^[a-z0-9][a-z0-9-]{0,39}$")
    regions: tuple[str, ...] = Field(min_length=1)
    endpoint_url: str | None = None
    image: str | None = None
    images: dict[ImageName, Annotated[str, Field(min_length=1, max_length=512)]] = Field(
        default_factory=dict,
        max_length=100,
        description="Images that leases may ask for by name; each written as `image` is.",
    )
    tags: dict[str, str] = Field(
        default_factory=dict, description="Tags of the operator for each resource that gpulease creates."
    )
    copy_labels: tuple[LabelKey, ...] = Field(
        default=(), description="Labels of leases that also become tags under their own name, for cost allocation."
    )
    data_disk_gib: int | None = Field(
        default=None, ge=10, le=65_536, description="Size of an extra, empty disk of each VM, deleted with the VM."
    )
    public_addresses: bool = Field(
        default=True, description="false: no VM gets a public address, whatever its lease requests."
    )
    ssh_port: int = Field(
        default=SSH_PORT,
        ge=1,
        le=65_535,
        description="Port on which the images' SSH server listens; at every image of the account.",
    )
    driver_images: dict[DriverName, Annotated[str, Field(min_length=1, max_length=512)]] = Field(
        default_factory=dict,
        description="Default images for GPUs that need another driver; each written as `image` is.",
    )
    reservations: tuple[ReservationSettings, ...] = Field(default=(), max_length=100)

    @field_validator("tags")
    @classmethod
    def _tags_are_accepted(cls, tags: dict[str, str]) -> dict[str, str]:
        if tags:
            check_tags(tags, cls._require_rules())
        return tags

    @model_validator(mode="after")
    def _labels_are_accepted(self) -> Self:
        if self.copy_labels:
            check_labels(self.copy_labels, self.tags, self._require_rules())
        return self

    @model_validator(mode="after")
    def _check_reservations(self) -> Self:
        check_reservations(self.reservations, self.regions, self.reservation_kinds)
        return self

    @classmethod
    def _require_rules(cls) -> TagRules:
        if cls.tag_rules is None:
            raise ValueError("this provider accepts no tags of an operator")
        return cls.tag_rules

    def require_each_region(self, setting: str, by_region: Mapping[str, str]) -> None:
        """Raises ValueError when a setting that has a value for each region lacks one, or names another region."""
        wrong = sorted(set(by_region).symmetric_difference(self.regions)) if by_region else []
        if wrong:
            raise ValueError(f"{setting} must name each region of the account and no other one: see {wrong[0]}")

    def reservations_in(self, region: str) -> tuple[ReservationSettings, ...]:
        """The configured reservations of a region."""
        return tuple(reservation for reservation in self.reservations if reservation.region == region)

    def reservation(self, name: str) -> ReservationSettings | None:
        """A configured reservation by name."""
        return next((reservation for reservation in self.reservations if reservation.name == name), None)

    @property
    def vm_parts(self) -> PartsFacts:
        """What a VM of the account gets besides compute, without its images."""
        return PartsFacts(
            data_disk_gib=self.data_disk_gib or 0,
            disk_sizes_gib=self.disk_sizes_gib,
            public_addresses=self.public_addresses,
        )

    @property
    def is_extendable(self) -> bool:
        """Whether leases may be extended: False where the cloud ends a VM at a time that is fixed at its launch."""
        return True

    @property
    def tells_events(self) -> bool:
        """Whether there is a queue of the cloud's events to listen to."""
        return False


@dataclass(frozen=True, slots=True, kw_only=True)
class ProviderInfo:
    """One provider.

    `name`: in accounts, requests and offerings. `label`: for people. `account`: the settings of one account. `adapter`: the
    class that connects to an account, as `module:Class`, imported on use. `catalogue`: the module whose `load` returns the
    types and prices that come with the adapter. `needs_deadman`: nothing at the cloud ends a VM while gpulease is down.
    `spot_price_by_zone`: a spot price of the region says nothing about one zone. `repriced_markets`: the markets in which
    the provider bills a running VM at the price of the day; elsewhere at the price of its launch. `focus`: how its
    invoices are written; None: they cannot be imported. `largest_cluster`: the most VMs that it places close to each
    other; None: it documents no limit. `fabric_settings`: the settings of an account without which its instance types have
    no network fabric.
    """

    name: str
    label: str
    account: type[AccountSettings]
    adapter: str
    catalogue: str
    needs_deadman: bool = False
    spot_price_by_zone: bool = False
    repriced_markets: frozenset[Market] = frozenset()
    focus: FocusDialect | None = None
    largest_cluster: int | None = None
    fabric_settings: tuple[str, ...] = ()

    @property
    def adapter_module(self) -> str:
        """The module of the adapter's class."""
        return self.adapter.partition(":")[0]


@cache
def providers() -> Mapping[str, ProviderInfo]:
    """By name, in the order of their names. Read once per process."""
    infos: dict[str, Any] = {entry.name: entry.load() for entry in entry_points(group=GROUP)}
    wrong = [name for name, info in infos.items() if not isinstance(info, ProviderInfo) or info.name != name]
    if wrong:
        msg = f"the entry point {wrong[0]!r} of the group {GROUP} is no ProviderInfo of that name"
        raise TypeError(msg)
    return MappingProxyType(dict(sorted(infos.items())))


def most_members(provider: str, placement: GroupPlacement) -> int:
    """The most VMs of a group that the provider places as the group requires."""
    info = providers().get(provider)
    largest = None if info is None else info.largest_cluster
    return MOST_MEMBERS if largest is None or placement is not GroupPlacement.CLUSTER else min(largest, MOST_MEMBERS)


def without_own_end() -> frozenset[str]:
    """Names of the providers that end no VM by themselves: they need the dead-man switch."""
    return frozenset(info.name for info in providers().values() if info.needs_deadman)
