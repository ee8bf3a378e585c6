"""The catalogue's facts, against their own rules, and its prices for plausibility."""

from decimal import Decimal

import pytest

from app.domain.offerings import InstanceType, Market
from cloudsim.gce.facts import catalog
from workers.providers.gcp.catalogue import load

TYPES = list(load().types.values())
PRICES = load().prices


def price(name: str, market: Market = Market.ON_DEMAND, region: str = "us-central1") -> Decimal | None:
    return PRICES.get((market, region, name))


def test_the_families_that_are_leased_are_there() -> None:
    families = {kind.name.rpartition("-")[0] for kind in TYPES}
    assert families == {"a2-highgpu", "a2-megagpu", "a2-ultragpu", "a3-highgpu", "a3-megagpu", "g2-standard"}
    assert {kind.gpu.model for kind in TYPES} == {"A100", "H100", "L4"}


@pytest.mark.parametrize("kind", TYPES, ids=lambda kind: kind.name)
def test_names_tell_gpus_or_vcpus(kind: InstanceType) -> None:
    size = kind.name.rpartition("-")[2]
    assert int(size.removesuffix("g")) == (kind.gpu.count if size.endswith("g") else kind.vcpus)
    assert kind.gpu.memory_gib == (80 if "ultra" in kind.name or "a3" in kind.name else 24 if "g2" in kind.name else 40)


@pytest.mark.parametrize("kind", TYPES, ids=lambda kind: kind.name)
def test_the_simulated_cloud_knows_the_same_facts(kind: InstanceType) -> None:
    facts = catalog().machines[kind.name]
    assert (facts.vcpus, facts.memory_mib) == (kind.vcpus, int(kind.memory_gib) * 1024)
    assert (facts.gpu.count, facts.gpu.memory_mib) == (kind.gpu.count, kind.gpu.memory_gib * 1024)


def test_prices_are_plausible_per_gpu() -> None:
    ranges = {"L4": (0.3, 2.2), "A100": (1.2, 7), "H100": (2, 16)}
    for (market, _, name), one in PRICES.items():
        kind = load().types[name]
        low, high = ranges[kind.gpu.model]
        assert low * (0.5 if market is Market.SPOT else 1) <= one / kind.gpu.count <= high, (market, name)


def test_spot_is_never_dearer_than_on_demand() -> None:
    for (market, region, name), one in PRICES.items():
        if market is Market.SPOT:
            fixed = price(name, Market.ON_DEMAND, region)
            assert fixed is None or one < fixed


def test_a_larger_size_of_a_family_costs_more_per_gpu_added() -> None:
    one, eight = price("a2-highgpu-1g"), price("a2-highgpu-8g")
    assert one is not None
    assert eight is not None
    assert abs(eight - 8 * one) < Decimal("0.01")


def test_every_type_boots_from_a_named_disk() -> None:
    assert set(load().boot_disks) == set(load().types)
    assert set(load().boot_disks.values()) <= {"pd-balanced", "pd-ssd", "hyperdisk-balanced"}


def test_small_a3_types_are_sold_as_spot_alone() -> None:
    spot_only = {name for name, markets in load().markets.items() if markets == (Market.SPOT,)}
    assert spot_only == {"a3-highgpu-1g", "a3-highgpu-2g", "a3-highgpu-4g"}
    assert {markets for name, markets in load().markets.items() if name not in spot_only} == {tuple(Market)}
    assert not {name for market, _, name in PRICES if market is Market.ON_DEMAND} & spot_only


def test_prices_carry_source_and_date() -> None:
    assert load().price_source
    assert load().price_as_of.tzinfo is not None
