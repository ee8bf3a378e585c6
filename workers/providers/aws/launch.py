"""Launches a VM: the parameters of RunInstances and of the security group before it, and the calls."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from app.domain.offerings import Market
from app.settings.reservations import ReservationSettings
from workers.providers.aws import disks, firewall, resource_tags, userdata, vms
from workers.providers.aws.calls import part
from workers.providers.aws.errors import creating
from workers.providers.aws.reservations import launch_arguments
from workers.providers.aws.settings import AwsAccount
from workers.providers.aws.subnets import Subnet
from workers.providers.send_window import require_open_window
from workers.providers.types import LaunchSpec, Params, Vm

if TYPE_CHECKING:
    from mypy_boto3_ec2 import EC2Client
    from mypy_boto3_ec2.type_defs import InstanceTypeDef

_TAGGED = ("instance", "volume", "network-interface")


def plan(
    spec: LaunchSpec,
    account: AwsAccount,
    *,
    subnet: Subnet | None,
    ena_express: bool = False,
    reservation: ReservationSettings | None = None,
) -> Params:
    """Exactly one VM, JSON-able, the same for the same arguments. `subnet` lies in the spec's zone.

    The zone is always named: EC2 then keeps the client token per zone. Without an instance profile of the account, the
    VM holds no rights there.
    """
    tags = resource_tags.of(spec, account)
    return {
        "MinCount": 1,
        "MaxCount": 1,
        "ClientToken": spec.token,
        "ImageId": spec.image.id,
        "InstanceType": spec.instance_type,
        "Placement": _placement(spec, account),
        "NetworkInterfaces": [_interface(spec, account, subnet, ena_express=ena_express)],
        "BlockDeviceMappings": disks.plan(spec, account),
        "MetadataOptions": {
            "HttpEndpoint": "enabled",
            "HttpTokens": "required",
            "HttpPutResponseHopLimit": 1,
            "InstanceMetadataTags": "enabled",
        },
        "InstanceInitiatedShutdownBehavior": "terminate",
        "TagSpecifications": tag_specifications(spec, tags),
        "UserData": userdata.packed(spec),
        **_instance_profile(account),
        **_market(spec, reservation),
        **firewall.plan(spec, subnet.vpc if subnet is not None else None, tags),
    }


def arguments(params: Params) -> Params:
    """Stored parameters as boto3 takes them: it adds EC2's base64 to the user data itself."""
    return {**params, "UserData": userdata.unpacked(params["UserData"])}


def _placement(spec: LaunchSpec, account: AwsAccount) -> dict[str, str]:
    """A VM in a reservation is placed by the reservation: a placement group would leave too few places."""
    if account.placement_group is None or spec.market is Market.RESERVED:
        return {"AvailabilityZone": spec.zone}
    return {"AvailabilityZone": spec.zone, "GroupName": account.placement_group}


def _instance_profile(account: AwsAccount) -> dict[str, Any]:
    profile = account.instance_profile
    if profile is None:
        return {}
    return {"IamInstanceProfile": {"Arn" if profile.startswith("arn:") else "Name": profile}}


def _market(spec: LaunchSpec, reservation: ReservationSettings | None) -> dict[str, Any]:
    if spec.market is Market.RESERVED:
        return launch_arguments(reservation)
    if spec.market is Market.ON_DEMAND:
        return {"DisableApiTermination": False}
    options = {"SpotInstanceType": "one-time", "InstanceInterruptionBehavior": "terminate"}
    return {"InstanceMarketOptions": {"MarketType": "spot", "SpotOptions": options}}


def _interface(spec: LaunchSpec, account: AwsAccount, subnet: Subnet | None, *, ena_express: bool) -> dict[str, Any]:
    """One interface of type ENA, with ENA Express where the type has it.

    An EFA interface serves traffic between VMs of one cluster, which a lease of one VM does not have.
    """
    interface: dict[str, Any] = {
        "DeviceIndex": 0,
        "AssociatePublicIpAddress": spec.public_ip and account.public_addresses,
        "DeleteOnTermination": True,
    }
    if ena_express:
        interface["EnaSrdSpecification"] = {"EnaSrdEnabled": True}
    if subnet is not None:
        interface["SubnetId"] = subnet.id
    if account.security_group_ids:
        interface["Groups"] = list(account.security_group_ids)
    return interface


def tag_specifications(spec: LaunchSpec, tags: Mapping[str, str]) -> list[dict[str, Any]]:
    """The same tags on all that RunInstances creates."""
    kinds = (*_TAGGED, "spot-instances-request") if spec.market is Market.SPOT else _TAGGED
    return [{"ResourceType": kind, "Tags": resource_tags.to_list(tags)} for kind in kinds]


def create(ec2: "EC2Client", region: str, params: Params) -> Vm:
    """Creates the security group, then calls RunInstances. Raises ProviderError."""
    return vms.from_instance(run(ec2, params)[0], region)


def run(ec2: "EC2Client", params: Params) -> "Sequence[InstanceTypeDef]":
    """As `create`. Returns EC2's records of the instances, in any order."""
    with firewall.ensure_firewall(ec2, params) as attached:
        require_open_window()
        with creating():
            answer = ec2.run_instances(**arguments(attached))
    instances: Sequence[InstanceTypeDef] = part(answer, "Instances")
    return instances
