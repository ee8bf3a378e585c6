"""Which of the account's listed subnets lies in which zone. A subnet never moves, so each region is asked once."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from threading import Lock
from typing import TYPE_CHECKING

from workers.providers.aws.calls import part
from workers.providers.aws.errors import translated
from workers.providers.errors import NotOffered

if TYPE_CHECKING:
    from mypy_boto3_ec2 import EC2Client
    from mypy_boto3_ec2.type_defs import FilterTypeDef


@dataclass(frozen=True, slots=True)
class Subnet:
    """A subnet and the VPC it belongs to."""

    id: str
    vpc: str


class Subnets:
    """Zone -> subnet, the first listed one of each zone. Without listed subnets EC2's default subnets are used."""

    def __init__(self, listed: Sequence[str], ec2: Callable[[str], "EC2Client"]) -> None:
        self._ec2 = ec2
        self._listed = list(listed)
        self._lock = Lock()
        self._zones: dict[str, Mapping[str, Subnet]] = {}

    def zones(self, region: str) -> Mapping[str, Subnet] | None:
        """None when the account lists none, so that every zone may be used. One call per region at most."""
        if not self._listed:
            return None
        with self._lock:
            if region not in self._zones:
                self._zones[region] = self._read(region)
            return self._zones[region]

    def of_zone(self, region: str, zone: str) -> Subnet | None:
        """The subnet to launch in. Raises NotOffered when subnets are listed and none lies in the zone."""
        zones = self.zones(region)
        if zones is None:
            return None
        if zone not in zones:
            raise NotOffered(f"none of the account's subnet_ids lies in {zone}", code="NoSubnet")
        return zones[zone]

    def _read(self, region: str) -> Mapping[str, Subnet]:
        """By a filter, because the list covers all regions and a call with ids fails for those of others."""
        with translated():
            wanted: list[FilterTypeDef] = [{"Name": "subnet-id", "Values": self._listed}]
            answer = self._ec2(region).describe_subnets(Filters=wanted)
        found = {subnet["SubnetId"]: subnet for subnet in part(answer, "Subnets")}
        chosen = [found[one] for one in reversed(self._listed) if one in found]
        return {subnet["AvailabilityZone"]: Subnet(subnet["SubnetId"], subnet["VpcId"]) for subnet in chosen}
