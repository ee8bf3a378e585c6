"""Which of the account's listed subnets lies in which zone, and which subnet of a zone has the most free addresses.

EC2 keeps the parameters of a refused launch under its client token. A repeat in another subnet of the zone would be an
`IdempotentParameterMismatch`. So a launch never changes its subnet: the next attempt uses another one.
"""

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from threading import Lock
from typing import TYPE_CHECKING

from workers.providers.aws.calls import part
from workers.providers.aws.errors import translated
from workers.providers.errors import InsufficientCapacity, NetworkFull, NotOffered
from workers.providers.types import Params

if TYPE_CHECKING:
    from mypy_boto3_ec2 import EC2Client
    from mypy_boto3_ec2.type_defs import FilterTypeDef

NO_ADDRESSES = "InsufficientFreeAddressesInSubnet"
_FRESH_SECONDS = 60.0


@dataclass(frozen=True, slots=True)
class Subnet:
    """A subnet, the VPC that it belongs to, and how many addresses were free when it was read."""

    id: str
    vpc: str
    free: int = 0


@dataclass(frozen=True, slots=True)
class _RegionSubnets:
    """What was read of a region: the subnets of each zone in the order of the list. `at`: monotonic seconds."""

    at: float
    zones: Mapping[str, Sequence[Subnet]]


class Subnets:
    """The listed subnets by zone. Without listed subnets, EC2's default subnets are used."""

    def __init__(
        self,
        listed: Sequence[str],
        ec2: Callable[[str], "EC2Client"],
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._ec2 = ec2
        self._listed = list(listed)
        self._monotonic = monotonic
        self._lock = Lock()
        self._regions: dict[str, _RegionSubnets] = {}

    def zones(self, region: str) -> frozenset[str] | None:
        """Zones with a listed subnet. None when the account lists none, so that every zone may be used.

        Makes one call for each region, the first time.
        """
        return frozenset(self._known(region).zones) if self._listed else None

    def refresh(self, region: str) -> None:
        """Reads the free addresses again, at most once a minute."""
        if self._listed:
            self._known(region, self._monotonic() - _FRESH_SECONDS)

    def of_zone(self, region: str, zone: str) -> Subnet | None:
        """The subnet to launch in: of those in the zone the one with the most free addresses.

        All subnets of a zone that are used lie in the VPC of the first listed one. Raises NotOffered when subnets are
        listed and none lies in the zone.
        """
        if not self._listed:
            return None
        subnets = self._known(region).zones.get(zone, ())
        if not subnets:
            raise NotOffered(f"none of the account's subnet_ids lies in {zone}", code="NoSubnet")
        return _best(subnets)

    @contextmanager
    def launching(self, region: str, params: Params) -> Iterator[None]:
        """A create call with `params`. Raises NetworkFull if EC2 refuses its subnet and another one has free addresses."""
        try:
            yield
        except InsufficientCapacity as error:
            subnet = params["NetworkInterfaces"][0].get("SubnetId")
            if error.code == NO_ADDRESSES and self.set_full(region, subnet):
                raise NetworkFull(error.message, code=error.code) from None
            raise

    def set_full(self, region: str, subnet_id: str | None) -> bool:
        """Records that EC2 has refused a launch there for lack of addresses, until the subnets are read again.

        Returns whether launches in that zone now use another subnet, which had free addresses.
        """
        with self._lock:
            known = self._regions.get(region)
            zone = _zone_of(known, subnet_id)
            if known is None or zone is None:
                return False
            subnets = [replace(other, free=0) if other.id == subnet_id else other for other in known.zones[zone]]
            self._regions[region] = replace(known, zones={**known.zones, zone: subnets})
            return _best(subnets).free > 0

    def _known(self, region: str, since: float | None = None) -> _RegionSubnets:
        """What was read at any time, or not before `since` (monotonic seconds)."""
        known = self._regions.get(region)
        if known is not None and (since is None or known.at >= since):
            return known
        now = self._monotonic()
        fresh = _RegionSubnets(now, self._read(region))
        with self._lock:
            self._regions[region] = fresh
        return fresh

    def _read(self, region: str) -> Mapping[str, Sequence[Subnet]]:
        """By a filter, because the list covers all regions and a call with ids fails for those of others."""
        with translated():
            filters: list[FilterTypeDef] = [{"Name": "subnet-id", "Values": self._listed}]
            answer = self._ec2(region).describe_subnets(Filters=filters)
        described = {subnet["SubnetId"]: subnet for subnet in part(answer, "Subnets")}
        zones: dict[str, list[Subnet]] = {}
        for subnet in (described[listed] for listed in self._listed if listed in described):
            described_subnet = Subnet(subnet["SubnetId"], subnet["VpcId"], subnet.get("AvailableIpAddressCount", 0))
            zones.setdefault(subnet["AvailabilityZone"], []).append(described_subnet)
        return zones


def _best(subnets: Sequence[Subnet]) -> Subnet:
    """The subnet with the most free addresses, of those in the VPC of the first one."""
    return max((subnet for subnet in subnets if subnet.vpc == subnets[0].vpc), key=lambda subnet: subnet.free)


def _zone_of(known: _RegionSubnets | None, subnet_id: str | None) -> str | None:
    zones = known.zones if known is not None else {}
    return next((zone for zone, subnets in zones.items() if any(subnet.id == subnet_id for subnet in subnets)), None)
