"""The catalogue's facts, against another copy of what DescribeInstanceTypes says, and its prices for plausibility."""

import re
from decimal import Decimal
from typing import Any

import pytest

from app.domain.offerings import InstanceType, NetworkFabric
from tests.workers.providers.aws.ec2_model import described_types, ec2_model
from workers.providers.aws.catalogue import load

TYPES = list(load().types.values())
PRICES = {(region, name): price.per_hour for (region, name, _), price in load().prices.items()}

# published reference points, USD per hour in us-east-1
REFERENCE = {"p4d.24xlarge": "21.96", "g5.xlarge": "1.006", "g4dn.xlarge": "0.526", "p5.48xlarge": "55.04"}


def price_per_gpu(kind: InstanceType) -> Decimal | None:
    price = PRICES.get(("us-east-1", kind.name))
    return price / kind.gpu.count if price is not None else None


def test_the_families_that_are_leased_are_there() -> None:
    families = {kind.name.split(".")[0] for kind in TYPES}
    assert families == {
        *("p4d", "p4de", "p5", "p5e", "p5en", "p6-b200", "p6-b300"),
        *("g4dn", "g5", "g6", "g6e", "g6f", "gr6", "gr6f", "g7", "g7e"),
    }


def test_every_type_of_these_families_in_ec2s_own_model_is_there() -> None:
    shape: Any = ec2_model().shape_for("InstanceType")
    families = {kind.name.split(".")[0] for kind in TYPES}
    assert {name for name in shape.enum if name.split(".")[0] in families} <= {kind.name for kind in TYPES}


@pytest.mark.parametrize("kind", TYPES, ids=lambda kind: kind.name)
def test_the_facts_are_what_ec2_describes(kind: InstanceType) -> None:
    facts = described_types()[kind.name]
    (gpu,) = facts["GpuInfo"]["Gpus"]
    assert kind.vcpus == facts["VCpuInfo"]["DefaultVCpus"]
    assert kind.memory_gib * 1024 == facts["MemoryInfo"]["SizeInMiB"]
    assert kind.gpu.model == {"RTX PRO Server 6000": "RTX PRO 6000"}.get(gpu["Name"], gpu["Name"])
    assert kind.gpu.count == (gpu["Count"] or 1)  # EC2 counts a part of a GPU as 0
    assert (kind.gpu.parts > 1) == (gpu["Count"] == 0)
    visible_gib = gpu["MemoryInfo"]["SizeInMiB"] / 1024
    assert 0.85 * kind.gpu.memory_gib < visible_gib < kind.gpu.memory_gib + 1


@pytest.mark.parametrize("kind", TYPES, ids=lambda kind: kind.name)
def test_disk_and_network_are_what_ec2_describes(kind: InstanceType) -> None:
    facts = described_types()[kind.name]
    assert kind.local_disk_gib == facts["InstanceStorageInfo"]["TotalSizeInGB"] * 10**9 // 2**30
    speed = re.fullmatch(r"(?:(\d+)x )?(?:Up to )?(\d+) Gigabit", facts["NetworkInfo"]["NetworkPerformance"])
    assert speed is not None
    cards, gigabits = speed.groups()
    assert kind.network_gbps == int(cards or 1) * int(gigabits)
    assert (kind.network_fabric is NetworkFabric.EFA) == facts["NetworkInfo"]["EfaSupported"]
    assert (kind.name in load().ena_express) == facts["NetworkInfo"]["EnaSrdSupported"]
    assert ("reserved" in load().markets[kind.name]) == ("capacity-block" in facts["SupportedUsageClasses"])


@pytest.mark.parametrize(("name", "price"), REFERENCE.items())
def test_prices_meet_the_published_reference_points(name: str, price: str) -> None:
    assert PRICES["us-east-1", name].quantize(Decimal(price)) == Decimal(price)


def test_prices_are_plausible_per_gpu() -> None:
    ranges = {"T4": (0.5, 5), "L4": (0.8, 4), "A10G": (1, 5), "L40S": (1.8, 8), "A100": (2, 5), "H100": (6, 13)}
    for kind in TYPES:
        price = price_per_gpu(kind)
        if price is not None and kind.gpu.model in ranges:
            low, high = ranges[kind.gpu.model]
            assert low <= price <= high, kind.name


def test_a_larger_size_of_a_family_is_never_cheaper() -> None:
    for region in {region for region, _ in PRICES}:
        for family in {kind.name.split(".")[0] for kind in TYPES}:
            sizes = [kind for kind in TYPES if kind.name.startswith(f"{family}.") and (region, kind.name) in PRICES]
            for kind in sizes:
                for other in sizes:
                    if (kind.vcpus, kind.gpu.count) < (
                        other.vcpus,
                        other.gpu.count,
                    ) and kind.gpu.count <= other.gpu.count:
                        assert PRICES[region, kind.name] <= PRICES[region, other.name]
