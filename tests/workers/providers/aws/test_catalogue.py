"""The catalogue's facts, against another copy of what DescribeInstanceTypes says, and its prices for plausibility."""

from decimal import Decimal

import pytest
from moto.ec2.models.instance_types import INSTANCE_TYPES

from app.domain.offerings import InstanceType
from workers.providers.aws.catalogue import load

TYPES = list(load().types.values())
PRICES = load().on_demand

# published reference points, USD per hour in us-east-1
REFERENCE = {"p4d.24xlarge": "21.96", "g5.xlarge": "1.006", "g4dn.xlarge": "0.526", "p5.48xlarge": "55.04"}


def price_per_gpu(kind: InstanceType) -> Decimal | None:
    price = PRICES.get(("us-east-1", kind.name))
    return price / kind.gpu.count if price is not None else None


def test_the_families_that_are_leased_are_there() -> None:
    families = {kind.name.split(".")[0] for kind in TYPES}
    assert families >= {"p4d", "p4de", "p5", "g4dn", "g5", "g6", "g6e"}
    assert {kind.gpu.model for kind in TYPES} >= {"A100", "H100", "A10G", "T4", "L4", "L40S"}


@pytest.mark.parametrize("kind", TYPES, ids=lambda kind: kind.name)
def test_the_facts_are_what_ec2_describes(kind: InstanceType) -> None:
    facts = INSTANCE_TYPES[kind.name]
    (gpu,) = facts["GpuInfo"]["Gpus"]
    assert kind.vcpus == facts["VCpuInfo"]["DefaultVCpus"]
    assert kind.memory_gib * 1024 == facts["MemoryInfo"]["SizeInMiB"]
    assert (kind.gpu.model, kind.gpu.count) == (gpu["Name"], gpu["Count"])
    visible_gib = gpu["MemoryInfo"]["SizeInMiB"] / 1024
    assert 0.85 * kind.gpu.memory_gib < visible_gib < kind.gpu.memory_gib + 1


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


def test_prices_carry_source_and_date() -> None:
    assert load().price_source
    assert load().price_as_of.tzinfo is not None
