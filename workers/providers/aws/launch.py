"""Launches a VM: the parameters of RunInstances and of the security group before it, and the calls."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, NotRequired, TypedDict

from app.domain.offerings import Market
from app.settings.reservations import ReservationSettings
from workers.providers.aws import disks, firewall, groups, nics, resource_tags, userdata, vms
from workers.providers.aws.calls import part
from workers.providers.aws.errors import creating, translated
from workers.providers.aws.reservations import launch_arguments
from workers.providers.aws.settings import AwsAccount
from workers.providers.aws.subnets import Subnet
from workers.providers.send_window import create_call
from workers.providers.types import LaunchSpec, Params, Vm

if TYPE_CHECKING:
    from mypy_boto3_ec2 import EC2Client
    from mypy_boto3_ec2.type_defs import InstanceTypeDef

_TAGGED = ("instance", "volume", "network-interface")
_METADATA = {
    "HttpEndpoint": "enabled",
    "HttpTokens": "required",
    "HttpPutResponseHopLimit": 1,
    "InstanceMetadataTags": "enabled",
}


class LaunchPlace(TypedDict):
    """Where the network of the account has room for a VM, and what interfaces its type takes."""

    subnet: Subnet | None
    ena_express: bool
    efa_cards: NotRequired[Sequence[int]]


def plan(
    spec: LaunchSpec,
    account: AwsAccount,
    *,
    subnet: Subnet | None,
    ena_express: bool = False,
    efa_cards: Sequence[int] = (),
    reservation: ReservationSettings | None = None,
) -> Params:
    """Exactly one VM, JSON-able, the same for the same arguments. `subnet` lies in the spec's zone.

    `ena_express`: the type has it. `efa_cards`: the network cards of the type that take an EFA interface.

    The zone is always named: EC2 then keeps the client token per zone. Without an instance profile of the account, the
    VM holds no rights there.
    """
    tags = resource_tags.of(spec, account)
    vpc = subnet.vpc if subnet is not None else None
    efa = efa_cards if nics.wants_efa(spec) else ()
    return {
        "MinCount": 1,
        "MaxCount": 1,
        "ClientToken": spec.token,
        "ImageId": spec.image.id,
        "InstanceType": spec.instance_type,
        "Placement": _placement(spec, account),
        "NetworkInterfaces": nics.plan(spec, account, subnet, ena_express=ena_express, efa=efa),
        "BlockDeviceMappings": disks.plan(spec, account),
        "MetadataOptions": dict(_METADATA),
        "InstanceInitiatedShutdownBehavior": "terminate",
        "TagSpecifications": tag_specifications(spec, tags),
        "UserData": userdata.packed(spec),
        **_instance_profile(account),
        **_market(spec, reservation),
        **firewall.plan(spec, vpc, tags),
        **groups.plan(spec, account, vpc, efa=bool(efa)),
    }


def arguments(params: Params) -> Params:
    """Stored parameters as boto3 takes them, without the security groups. boto3 adds EC2's base64 to the user data itself."""
    run = {key: value for key, value in params.items() if key not in (firewall.PART, groups.PART)}
    return {**run, "UserData": userdata.unpacked(params["UserData"])}


def _placement(spec: LaunchSpec, account: AwsAccount) -> dict[str, str]:
    group = groups.placement_group(spec, account)
    return {"AvailabilityZone": spec.zone} | ({} if group is None else {"GroupName": group})


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


def tag_specifications(spec: LaunchSpec, tags: Mapping[str, str]) -> list[dict[str, Any]]:
    """The same tags on all that RunInstances creates."""
    kinds = (*_TAGGED, "spot-instances-request") if spec.market is Market.SPOT else _TAGGED
    return [{"ResourceType": kind, "Tags": resource_tags.to_list(tags)} for kind in kinds]


def create(ec2: "EC2Client", region: str, params: Params, shared: groups.Ec2GroupResources) -> Vm:
    """Creates what VMs share, then the VM's own security group, then calls RunInstances.

    Raises ProviderError: OutcomeUnknown for an answer that names no VM or cannot be read.
    """
    records = run(ec2, region, params, shared)
    with translated():
        return vms.from_instance(records[0], region)


def run(ec2: "EC2Client", region: str, params: Params, shared: groups.Ec2GroupResources) -> "Sequence[InstanceTypeDef]":
    """As `create`. Returns EC2's records of the instances, in any order."""
    with (
        shared.ensure(ec2, region, params) as joined,
        firewall.ensure_firewall(ec2, joined) as attached,
        create_call(),
        creating(),
    ):
        answer = ec2.run_instances(**arguments(attached))
    instances: Sequence[InstanceTypeDef] = part(answer, "Instances")
    return instances
