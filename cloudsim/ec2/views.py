"""VMs in EC2's words: dicts with the member names of botocore's model."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from cloudsim.ec2 import default_vpc
from cloudsim.ec2.catalog import PROVIDER
from cloudsim.ec2.images import ROOT_DEVICE
from cloudsim.world import Market, Resource, ResourceKind, Vm, VmState, World

STATE_CODES = {VmState.PENDING: 0, VmState.RUNNING: 16, VmState.SHUTTING_DOWN: 32, VmState.TERMINATED: 48}

MISSING_KEY, DISABLED_KEY = "kms-key-missing", "Client.InvalidKMSKey.InvalidState"
VOLUME_LIMIT = "Client.VolumeLimitExceeded"
"""End codes of VMs whose volumes cannot be made: EC2 finds that out after it has accepted the launch.

For a key that is missing, code and message of the reason differ (karpenter-provider-aws issue 1407).
"""
_OTHER_CODE = ("Client.", "Server.")

_END_REASONS = {
    "user": ("Client.UserInitiatedShutdown", "User initiated shutdown"),
    "instance": ("Client.InstanceInitiatedShutdown", "Instance initiated shutdown"),
    "reclaimed": ("Server.SpotInstanceTermination", "Spot instance termination"),
    "Server.InsufficientInstanceCapacity": (
        "Server.InsufficientInstanceCapacity",
        "Insufficient capacity to satisfy instance request",
    ),
    "reservation-ended": ("Server.CapacityBlockEnded", "The capacity block of the instance ends"),
    "Server.InternalError": ("Server.InternalError", "Internal error on launch"),
    MISSING_KEY: ("Server.InternalError", "Client.InternalError: Client error on launch"),
    DISABLED_KEY: (DISABLED_KEY, "The KMS key provided is in an incorrect state"),
    VOLUME_LIMIT: (VOLUME_LIMIT, "Volume limit exceeded. You have exceeded the storage limit of this volume type"),
}


def state(of: VmState) -> dict[str, Any]:
    """InstanceState."""
    return {"Code": STATE_CODES[of], "Name": of.value}


def tag_list(tags: dict[str, str]) -> list[dict[str, str]]:
    """TagList."""
    return [{"Key": key, "Value": value} for key, value in tags.items()]


def _state_reason(vm: Vm) -> dict[str, str] | None:
    if vm.state is VmState.PENDING:
        return {"Code": "pending", "Message": "pending"}
    if not vm.end_code:
        return None
    code, text = _END_REASONS.get(vm.end_code, (vm.end_code, vm.end_code))
    return {"Code": code, "Message": text if text.startswith(_OTHER_CODE) else f"{code}: {text}"}


def transition_reason(vm: Vm) -> str:
    """Only what a user did carries its time."""
    if vm.ending_at is None:
        return ""
    if vm.end_code in ("user", "instance"):
        moment = datetime.fromtimestamp(vm.ending_at, UTC)
        return f"User initiated ({moment:%Y-%m-%d %H:%M:%S} GMT)"
    return _END_REASONS.get(vm.end_code, (vm.end_code, ""))[0]


def _dns_suffix(region: str) -> tuple[str, str]:
    if region == "us-east-1":
        return "ec2.internal", "compute-1.amazonaws.com"
    return f"{region}.compute.internal", f"{region}.compute.amazonaws.com"


def _volume_mapping(vm: Vm, volume: Resource) -> dict[str, Any]:
    return {
        "DeviceName": volume.spec["device"],
        "Ebs": {
            "AttachTime": volume.created_at,
            "DeleteOnTermination": volume.delete_with_vm,
            "Status": "attaching" if vm.state is VmState.PENDING else "attached",
            "VolumeId": volume.id,
        },
    }


def _public_address(vm: Vm) -> str | None:
    return vm.public_ip if vm.state is VmState.RUNNING else None


def _association(vm: Vm) -> dict[str, str] | None:
    address = _public_address(vm)
    if address is None:
        return None
    return {"IpOwnerId": "amazon", "PublicIp": address, "PublicDnsName": _public_dns(vm)}


def _private_dns(vm: Vm) -> str:
    return f"ip-{vm.private_ip.replace('.', '-')}.{_dns_suffix(vm.region)[0]}"


def _public_dns(vm: Vm) -> str:
    address = _public_address(vm)
    return f"ec2-{address.replace('.', '-')}.{_dns_suffix(vm.region)[1]}" if address else ""


def mac_address(nic_id: str) -> str:
    """A stable hardware address for a network interface."""
    digits = nic_id.removeprefix("eni-")[-10:]
    return ":".join(["06", *(digits[at : at + 2] for at in range(0, 10, 2))])


def _interface(vm: Vm, nic: Resource) -> dict[str, Any]:
    return {
        "Association": _association(vm),
        "Attachment": {
            "AttachTime": nic.created_at,
            "AttachmentId": nic.spec["attachment"],
            "DeleteOnTermination": nic.delete_with_vm,
            "DeviceIndex": nic.spec["device_index"],
            "NetworkCardIndex": nic.spec.get("card", 0),
            "Status": "attaching" if vm.state is VmState.PENDING else "attached",
        },
        "Description": "",
        "Groups": nic.spec["groups"],
        "InterfaceType": nic.spec.get("type", "interface"),
        "Ipv6Addresses": [],
        "MacAddress": mac_address(nic.id),
        "NetworkInterfaceId": nic.id,
        "OwnerId": vm.account,
        "PrivateDnsName": _private_dns(vm),
        "PrivateIpAddress": vm.private_ip,
        "PrivateIpAddresses": [{"Primary": True, "PrivateIpAddress": vm.private_ip}],
        "SourceDestCheck": True,
        "Status": "in-use",
        "SubnetId": vm.spec["subnet"],
        "VpcId": default_vpc.vpc_id(vm.account, vm.region),
    }


def _wiring(world: World, vm: Vm) -> dict[str, Any]:
    """What a terminated instance no longer shows."""
    if vm.state is VmState.TERMINATED:
        return {"PrivateDnsName": "", "PublicDnsName": "", "BlockDeviceMappings": [], "NetworkInterfaces": []}
    parts = [world.resources[part] for part in vm.resources if part in world.resources]
    return {
        "PrivateDnsName": _private_dns(vm),
        "PublicDnsName": _public_dns(vm),
        "PrivateIpAddress": vm.private_ip,
        "PublicIpAddress": _public_address(vm),
        "SubnetId": vm.spec["subnet"],
        "VpcId": default_vpc.vpc_id(vm.account, vm.region),
        "SecurityGroups": vm.spec["groups"],
        "BlockDeviceMappings": [_volume_mapping(vm, part) for part in parts if part.kind is ResourceKind.VOLUME],
        "NetworkInterfaces": [_interface(vm, part) for part in parts if part.kind is ResourceKind.NETWORK_INTERFACE],
    }


def _profile(vm: Vm) -> dict[str, str] | None:
    name = vm.spec.get("profile")
    return {"Arn": f"arn:aws:iam::{vm.account}:instance-profile/{name}", "Id": "AIPASIMULATED"} if name else None


def instance(world: World, vm: Vm) -> dict[str, Any]:
    """Instance."""
    spot = vm.market is Market.SPOT
    return {
        "InstanceId": vm.id,
        "ImageId": vm.image,
        "State": state(vm.state),
        "StateReason": _state_reason(vm),
        "StateTransitionReason": transition_reason(vm),
        "AmiLaunchIndex": vm.spec.get("launch_index", 0),
        "ProductCodes": [],
        "InstanceType": vm.instance_type,
        "LaunchTime": vm.launched_at,
        "Placement": _placement(vm),
        "IamInstanceProfile": _profile(vm),
        "Monitoring": {"State": "disabled"},
        "Architecture": "x86_64",
        "ClientToken": vm.token or "",
        "EbsOptimized": vm.spec["ebs_optimized"],
        "EnaSupport": True,
        "Hypervisor": "xen",
        "InstanceLifecycle": "spot" if spot else None,
        "SpotInstanceRequestId": vm.spec["spot"]["id"] if spot else None,
        "RootDeviceName": ROOT_DEVICE,
        "RootDeviceType": "ebs",
        "SourceDestCheck": True,
        "VirtualizationType": "hvm",
        "CpuOptions": {"CoreCount": world.machine(PROVIDER, vm.instance_type).vcpus // 2, "ThreadsPerCore": 2},
        "MetadataOptions": {"State": "applied", **vm.spec["metadata"]},
        "BootMode": "uefi-preferred",
        "PlatformDetails": "Linux/UNIX",
        "UsageOperation": "RunInstances",
        "UsageOperationUpdateTime": vm.launched_at,
        "Tags": tag_list(vm.tags) if vm.tags else None,
        **vm.spec.get("capacity", {}),
        **_wiring(world, vm),
    }


def _placement(vm: Vm) -> dict[str, str]:
    return {"AvailabilityZone": vm.zone, "GroupName": vm.spec.get("placement_group", ""), "Tenancy": "default"}


def reservation(world: World, *vms: Vm) -> dict[str, Any]:
    """Reservation of the instances of one launch. A listing shows each of them in a reservation with the same id."""
    return {
        "ReservationId": vms[0].spec["reservation"],
        "OwnerId": vms[0].account,
        "Groups": [],
        "Instances": [instance(world, vm) for vm in vms],
    }
