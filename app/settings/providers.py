"""The providers of this installation: what the program knows of each before it speaks to one.

A provider is a package that the entry point group `gpulease.providers` names. Its entry point is a `ProviderInfo`.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib.metadata import entry_points
from types import MappingProxyType
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field

GROUP = "gpulease.providers"

ImageName = Annotated[str, Field(pattern=r"^[a-z0-9][a-z0-9._-]{0,39}$")]


class AccountSettings(BaseModel):
    """What the accounts of every provider have. A provider's own class adds its fields, and `provider: Literal["<name>"]`."""

    model_config = ConfigDict(frozen=True, extra="forbid")

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
    `spot_price_by_zone`: a spot price of the region says nothing about one zone.
    """

    name: str
    label: str
    account: type[AccountSettings]
    adapter: str
    catalogue: str
    needs_deadman: bool = False
    spot_price_by_zone: bool = False


@cache
def providers() -> Mapping[str, ProviderInfo]:
    """By name, in the order of their names. Read once per process."""
    found: dict[str, Any] = {entry.name: entry.load() for entry in entry_points(group=GROUP)}
    wrong = [name for name, info in found.items() if not isinstance(info, ProviderInfo) or info.name != name]
    if wrong:
        msg = f"the entry point {wrong[0]!r} of the group {GROUP} is no ProviderInfo of that name"
        raise TypeError(msg)
    return MappingProxyType(dict(sorted(found.items())))


def without_own_end() -> frozenset[str]:
    """Names of the providers that end no VM by themselves: they need the dead-man switch."""
    return frozenset(info.name for info in providers().values() if info.needs_deadman)
