from typing import Any

from cloudsim.testing import Control
from tests.cloudsim.conftest import Clients
from tests.cloudsim.refusals import refused


def by(name: str, *values: str) -> list[dict[str, Any]]:
    return [{"Name": name, "Values": list(values)}]


def test_types_have_the_facts_that_aws_publishes(ec2: Any) -> None:
    wanted = ["p4d.24xlarge", "p4de.24xlarge", "p5.48xlarge", "g5.12xlarge", "g4dn.xlarge", "g6.xlarge", "g6e.48xlarge"]
    found = {
        item["InstanceType"]: (
            item["VCpuInfo"]["DefaultVCpus"],
            item["MemoryInfo"]["SizeInMiB"] // 1024,
            item["GpuInfo"]["Gpus"][0]["Name"],
            item["GpuInfo"]["Gpus"][0]["Count"],
            item["GpuInfo"]["Gpus"][0]["MemoryInfo"]["SizeInMiB"] // 1024,
        )
        for item in ec2.describe_instance_types(InstanceTypes=wanted)["InstanceTypes"]
    }
    assert found == {
        "p4d.24xlarge": (96, 1152, "A100", 8, 40),
        "p4de.24xlarge": (96, 1152, "A100", 8, 80),
        "p5.48xlarge": (192, 2048, "H100", 8, 80),
        "g5.12xlarge": (48, 192, "A10G", 4, 24),
        "g4dn.xlarge": (4, 16, "T4", 1, 16),
        "g6.xlarge": (4, 16, "L4", 1, 24),
        "g6e.48xlarge": (192, 1536, "L40S", 8, 48),
    }


def test_unknown_types_are_refused(ec2: Any) -> None:
    with refused("InvalidInstanceType"):
        ec2.describe_instance_types(InstanceTypes=["x9.huge"])


def test_not_every_type_is_sold_in_every_zone(ec2: Any, sim: Control) -> None:
    def zones(machine: str) -> set[str]:
        found = ec2.describe_instance_type_offerings(
            LocationType="availability-zone", Filters=by("instance-type", machine)
        )
        return {item["Location"] for item in found["InstanceTypeOfferings"]}

    assert zones("p5.48xlarge") == {f"us-east-1{letter}" for letter in "abdf"}
    sim.offered("us-east-1a", "p5.48xlarge", False)
    assert zones("p5.48xlarge") == {f"us-east-1{letter}" for letter in "bdf"}


def test_offerings_by_region_and_zone_id(ec2: Any) -> None:
    regional = ec2.describe_instance_type_offerings(Filters=by("instance-type", "p5.*"))["InstanceTypeOfferings"]
    assert [(item["InstanceType"], item["Location"]) for item in regional] == [("p5.48xlarge", "us-east-1")]
    by_id = ec2.describe_instance_type_offerings(
        LocationType="availability-zone-id", Filters=by("location", "use1-az1")
    )
    assert by_id["InstanceTypeOfferings"]
    with refused("InvalidParameterValue"):
        ec2.describe_instance_type_offerings(LocationType="moon")


def test_paged_types_are_all_types(ec2: Any) -> None:
    pages = ec2.get_paginator("describe_instance_types").paginate(PaginationConfig={"PageSize": 5})
    names = [item["InstanceType"] for page in pages for item in page["InstanceTypes"]]
    assert len(names) == len(set(names)) == 34


def test_regions_and_zones(ec2: Any, clients: Clients) -> None:
    regions = {item["RegionName"] for item in ec2.describe_regions()["Regions"]}
    assert regions == {"us-east-1", "us-east-2", "us-west-2", "eu-west-1"}
    for region, count in {"us-east-1": 6, "us-east-2": 3, "us-west-2": 4, "eu-west-1": 3}.items():
        zones = clients("ec2", region).describe_availability_zones()["AvailabilityZones"]
        assert [zone["ZoneName"] for zone in zones] == [f"{region}{letter}" for letter in "abcdef"[:count]]
    with refused("InvalidParameterValue"):
        ec2.describe_regions(RegionNames=["mars-1"])
    with refused("InvalidParameterValue"):
        ec2.describe_availability_zones(ZoneNames=["us-west-2a"])


def test_images_are_found_by_name_newest_and_by_id(ec2: Any, ami: str) -> None:
    name = "Deep Learning Base OSS Nvidia Driver GPU AMI (Ubuntu 22.04) *"
    found = ec2.describe_images(Owners=["amazon"], Filters=[*by("name", name), *by("state", "available")])["Images"]
    assert max(found, key=lambda image: image["CreationDate"])["ImageId"] == ami
    assert ec2.describe_images(ImageIds=[ami])["Images"][0]["BlockDeviceMappings"][0]["Ebs"]["VolumeSize"] == 75
    assert ec2.describe_images(Owners=["self"])["Images"] == []
    with refused("InvalidAMIID.NotFound"):
        ec2.describe_images(ImageIds=["ami-0123456789abcdef0"])
