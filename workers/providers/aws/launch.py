"""A launch specification as the parameters of RunInstances, and of the security group before it."""

from collections.abc import Sequence
from typing import Any

from app.domain.offerings import Market
from workers.providers.aws import firewall, resource_tags, userdata
from workers.providers.aws.subnets import Subnet
from workers.providers.errors import InvalidSpec
from workers.providers.types import LaunchSpec, Params

_TAGGED = ("instance", "volume", "network-interface")


def plan(spec: LaunchSpec, *, subnet: Subnet | None, security_groups: Sequence[str]) -> Params:
    """Exactly one VM, JSON-able, the same for the same arguments. `subnet` lies in the spec's zone.

    The zone is always named: EC2 then keeps the client token per zone. No instance profile is given, so the
    VM holds no rights in the account.
    """
    return {
        "MinCount": 1,
        "MaxCount": 1,
        "ClientToken": spec.token,
        "ImageId": spec.image.id,
        "InstanceType": spec.instance_type,
        "Placement": {"AvailabilityZone": spec.zone},
        "NetworkInterfaces": [_interface(spec, subnet, security_groups)],
        "BlockDeviceMappings": [_root_device(spec)],
        "MetadataOptions": {
            "HttpEndpoint": "enabled",
            "HttpTokens": "required",
            "HttpPutResponseHopLimit": 1,
            "InstanceMetadataTags": "enabled",
        },
        "InstanceInitiatedShutdownBehavior": "terminate",
        "TagSpecifications": _tag_specifications(spec),
        "UserData": userdata.packed(spec),
        **_market(spec),
        **firewall.plan(spec, subnet.vpc if subnet is not None else None),
    }


def arguments(params: Params) -> Params:
    """Stored parameters as boto3 takes them: it adds EC2's base64 to the user data itself."""
    return {**params, "UserData": userdata.unpacked(params["UserData"])}


def _market(spec: LaunchSpec) -> dict[str, Any]:
    if spec.market is Market.ON_DEMAND:
        return {"DisableApiTermination": False}
    options = {"SpotInstanceType": "one-time", "InstanceInterruptionBehavior": "terminate"}
    return {"InstanceMarketOptions": {"MarketType": "spot", "SpotOptions": options}}


def _interface(spec: LaunchSpec, subnet: Subnet | None, security_groups: Sequence[str]) -> dict[str, Any]:
    interface: dict[str, Any] = {
        "DeviceIndex": 0,
        "AssociatePublicIpAddress": spec.public_ip,
        "DeleteOnTermination": True,
    }
    if subnet is not None:
        interface["SubnetId"] = subnet.id
    if security_groups:
        interface["Groups"] = list(security_groups)
    return interface


def _root_device(spec: LaunchSpec) -> dict[str, Any]:
    if spec.image.root_device is None:
        msg = f"the root device of image {spec.image.id} is not known: use the image that image() returned"
        raise InvalidSpec(msg, code="InvalidBlockDeviceMapping")
    volume = {
        "VolumeType": "gp3",
        "VolumeSize": max(spec.disk_gib, spec.image.disk_gib),
        "Encrypted": True,
        "DeleteOnTermination": True,
    }
    return {"DeviceName": spec.image.root_device, "Ebs": volume}


def _tag_specifications(spec: LaunchSpec) -> list[dict[str, Any]]:
    tags = resource_tags.to_list(resource_tags.of(spec))
    kinds = (*_TAGGED, "spot-instances-request") if spec.market is Market.SPOT else _TAGGED
    return [{"ResourceType": kind, "Tags": tags} for kind in kinds]
