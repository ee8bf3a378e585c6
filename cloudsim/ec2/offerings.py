"""Regions, zones, instance types, where they are sold, and images."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from cloudsim.ec2.call import Call, Result
from cloudsim.ec2.catalog import ENA_EXPRESS, PROVIDER, REGIONS, ZONE_ID_PREFIX
from cloudsim.ec2.errors import AwsError, bad_value
from cloudsim.ec2.filters import compiled
from cloudsim.ec2.images import OWNER, OWNER_ALIAS, ROOT_DEVICE, ROOT_GIB, Image, available
from cloudsim.ec2.paging import page
from cloudsim.world import Gpu, MachineType

Field = Callable[[Any], str | Iterable[str] | None]


def zone_id(zone: str) -> str:
    """`use1-az1` of `us-east-1a`: the same for every account here."""
    return f"{ZONE_ID_PREFIX[zone[:-1]]}-az{ord(zone[-1]) - ord('a') + 1}"


def _endpoint(region: str) -> str:
    return f"ec2.{region}.amazonaws.com"


_REGION_FIELDS: dict[str, Field] = {"region-name": lambda region: region, "endpoint": _endpoint}


def describe_regions(call: Call) -> Result:
    """Every simulated region."""
    matches = compiled(call.params.get("Filters", []), _REGION_FIELDS)
    named = call.params.get("RegionNames") or list(REGIONS)
    unknown = [region for region in named if region not in REGIONS]
    if unknown:
        raise AwsError("InvalidParameterValue", f"Invalid region: [{unknown[0]}]")
    return {
        "Regions": [
            {"RegionName": region, "Endpoint": _endpoint(region), "OptInStatus": "opt-in-not-required"}
            for region in named
            if matches(region)
        ]
    }


_ZONE_FIELDS: dict[str, Field] = {
    "zone-name": lambda zone: zone,
    "zone-id": zone_id,
    "region-name": lambda zone: zone[:-1],
    "state": lambda _: "available",
    "zone-type": lambda _: "availability-zone",
    "opt-in-status": lambda _: "opt-in-not-required",
}


def describe_availability_zones(call: Call) -> Result:
    """The zones of the caller's region."""
    matches = compiled(call.params.get("Filters", []), _ZONE_FIELDS)
    named = call.params.get("ZoneNames")
    unknown = [zone for zone in named or [] if zone not in call.zones]
    if unknown:
        raise AwsError("InvalidParameterValue", f"Invalid availability zone: [{unknown[0]}]")
    return {"AvailabilityZones": [_zone(zone) for zone in named or call.zones if matches(zone)]}


def _zone(zone: str) -> dict[str, Any]:
    return {
        "ZoneName": zone,
        "ZoneId": zone_id(zone),
        "ZoneType": "availability-zone",
        "RegionName": zone[:-1],
        "GroupName": zone[:-1],
        "NetworkBorderGroup": zone[:-1],
        "OptInStatus": "opt-in-not-required",
        "State": "available",
        "Messages": [],
    }


_OFFERING_FIELDS: dict[str, Field] = {
    "instance-type": lambda offering: offering[1],
    "location": lambda offering: offering[0],
}


def describe_instance_type_offerings(call: Call) -> Result:
    """Which types the region, or each of its zones, sells."""
    sold = [pair for pair in call.world.offered[PROVIDER] if pair[0] in call.zones]
    kind = call.params.get("LocationType", "region")
    if kind == "region":
        sold = list({(call.region, machine) for _, machine in sold})
    elif kind == "availability-zone-id":
        sold = [(zone_id(zone), machine) for zone, machine in sold]
    elif kind != "availability-zone":
        raise bad_value(kind, "locationType")
    matches = compiled(call.params.get("Filters", []), _OFFERING_FIELDS)
    page_items, token = page(filter(matches, sold), lambda pair: f"{pair[1]}/{pair[0]}", call)
    return {
        "InstanceTypeOfferings": [
            {"InstanceType": machine, "LocationType": kind, "Location": place} for place, machine in page_items
        ],
        "NextToken": token,
    }


_TYPE_FIELDS: dict[str, Field] = {
    "instance-type": lambda machine: machine.name,
    "processor-info.supported-architecture": lambda _: "x86_64",
    "supported-usage-class": lambda _: ("on-demand", "spot"),
    "current-generation": lambda _: "true",
    "bare-metal": lambda machine: str(_is_metal(machine)).lower(),
}
_TYPES_PER_PAGE = 100


def _is_metal(machine: MachineType) -> bool:
    return machine.name.endswith(".metal")


def describe_instance_types(call: Call) -> Result:
    """Types that the region sells."""
    sold = {machine for zone, machine in call.world.offered[PROVIDER] if zone in call.zones}
    named = call.params.get("InstanceTypes")
    unknown = [name for name in named or [] if name not in sold]
    if unknown:
        raise AwsError(
            "InvalidInstanceType", f"The following supplied instance types do not exist: [{', '.join(unknown)}]"
        )
    matches = compiled(call.params.get("Filters", []), _TYPE_FIELDS)
    machines = [call.world.machine(PROVIDER, name) for name in named or sold]
    page_items, token = page(filter(matches, machines), lambda machine: machine.name, call, most=_TYPES_PER_PAGE)
    return {"InstanceTypes": [_machine(machine) for machine in page_items], "NextToken": token}


def _machine(machine: MachineType) -> dict[str, Any]:
    threads = 2
    return {
        "InstanceType": machine.name,
        "CurrentGeneration": True,
        "FreeTierEligible": False,
        "SupportedUsageClasses": [market.value.replace("_", "-") for market in machine.sold_as],
        "SupportedRootDeviceTypes": ["ebs"],
        "SupportedVirtualizationTypes": ["hvm"],
        "BareMetal": _is_metal(machine),
        "Hypervisor": None if _is_metal(machine) else "nitro",
        "ProcessorInfo": {"SupportedArchitectures": ["x86_64"]},
        "VCpuInfo": {
            "DefaultVCpus": machine.vcpus,
            "DefaultCores": machine.vcpus // threads,
            "DefaultThreadsPerCore": threads,
        },
        "MemoryInfo": {"SizeInMiB": machine.memory_mib},
        "InstanceStorageSupported": True,
        "EbsInfo": {"EbsOptimizedSupport": "default", "EncryptionSupport": "supported", "NvmeSupport": "required"},
        "NetworkInfo": {"EnaSupport": "required", "EnaSrdSupported": machine.name in ENA_EXPRESS},
        "GpuInfo": _gpu(machine.gpu),
        "HibernationSupported": False,
        "BurstablePerformanceSupported": False,
        "DedicatedHostsSupported": True,
        "AutoRecoverySupported": False,
    }


def _gpu(gpu: Gpu) -> dict[str, Any]:
    return {
        "Gpus": [
            {
                "Name": gpu.name,
                "Manufacturer": gpu.manufacturer,
                "Count": gpu.count,
                "MemoryInfo": {"SizeInMiB": gpu.memory_mib},
            }
        ],
        "TotalGpuMemoryInMiB": gpu.count * gpu.memory_mib,
    }


_IMAGE_FIELDS: dict[str, Field] = {
    "name": lambda image: image.name,
    "image-id": lambda image: image.id,
    "state": lambda _: "available",
    "architecture": lambda _: "x86_64",
    "is-public": lambda _: "true",
    "owner-alias": lambda _: OWNER_ALIAS,
    "owner-id": lambda _: OWNER,
    "image-type": lambda _: "machine",
    "root-device-type": lambda _: "ebs",
    "virtualization-type": lambda _: "hvm",
}


def describe_images(call: Call) -> Result:
    """Public images by id, owner and filter."""
    known = available(call.world, call.region)
    named = call.params.get("ImageIds")
    missing = [image_id for image_id in named or [] if image_id not in known]
    if missing:
        raise AwsError("InvalidAMIID.NotFound", f"The image id '[{missing[0]}]' does not exist")
    owners = call.params.get("Owners")
    if owners and not {OWNER, OWNER_ALIAS} & set(owners):
        return {"Images": []}
    matches = compiled(call.params.get("Filters", []), _IMAGE_FIELDS)
    chosen = [known[image_id] for image_id in named] if named else known.values()
    page_items, token = page(filter(matches, chosen), lambda image: image.id, call)
    return {"Images": [_image(image) for image in page_items], "NextToken": token}


def _image(image: Image) -> dict[str, Any]:
    return {
        "ImageId": image.id,
        "Name": image.name,
        "Description": f"Driver-ready GPU image on Ubuntu {image.ubuntu}",
        "CreationDate": image.created,
        "OwnerId": OWNER,
        "ImageOwnerAlias": OWNER_ALIAS,
        "ImageLocation": f"amazon/{image.name}",
        "ImageType": "machine",
        "Architecture": "x86_64",
        "Public": True,
        "State": "available",
        "RootDeviceName": ROOT_DEVICE,
        "RootDeviceType": "ebs",
        "VirtualizationType": "hvm",
        "Hypervisor": "xen",
        "EnaSupport": True,
        "PlatformDetails": "Linux/UNIX",
        "UsageOperation": "RunInstances",
        "BlockDeviceMappings": [
            {
                "DeviceName": ROOT_DEVICE,
                "Ebs": {
                    "DeleteOnTermination": True,
                    "Encrypted": False,
                    "SnapshotId": image.snapshot_id,
                    "VolumeSize": ROOT_GIB,
                    "VolumeType": "gp3",
                },
            }
        ],
    }
