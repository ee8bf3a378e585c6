"""The catalogue's facts, against their own rules, and its prices for plausibility."""

import re
from decimal import Decimal

import pytest

from app.domain.offerings import InstanceType, Market
from cloudsim.gce.catalog import HYPERDISK_ONLY, catalog, family
from workers.providers.gcp.catalogue import load
from workers.providers.gcp.settings import GcpAccount

TYPES = list(load().types.values())
PRICES = {key: price.per_hour for key, price in load().prices.items()}


def price(name: str, market: Market = Market.ON_DEMAND, region: str = "us-central1") -> Decimal | None:
    return PRICES.get((region, name, market))


def test_the_families_that_are_leased_are_there() -> None:
    families = {kind.name.rpartition("-")[0] for kind in TYPES if not kind.name.startswith("n1")}
    assert families == {
        *("a2-highgpu", "a2-megagpu", "a2-ultragpu", "a3-highgpu", "a3-megagpu", "a3-edgegpu", "a3-ultragpu"),
        *("a4-highgpu", "g2-standard", "g4-standard"),
    }
    assert {kind.gpu.model for kind in TYPES} == {"A100", "H100", "H200", "B200", "L4", "RTX PRO 6000", "T4", "V100"}


@pytest.mark.parametrize("kind", TYPES, ids=lambda kind: kind.name)
def test_names_tell_gpus_or_vcpus(kind: InstanceType) -> None:
    size = kind.name.rpartition("-")[2]
    attached = re.fullmatch(r"n1-standard-(\d+)-(\d+)x(t4|v100)", kind.name)
    if attached is not None:
        assert (int(attached[1]), int(attached[2]), attached[3]) == (kind.vcpus, kind.gpu.count, kind.gpu.model.lower())
        assert load().machines[kind.name].machine_type == f"n1-standard-{kind.vcpus}"
    else:
        assert int(size.removesuffix("g")) == (kind.gpu.count if size.endswith("g") else kind.vcpus)
        assert load().machines[kind.name].machine_type == kind.name


@pytest.mark.parametrize("kind", TYPES, ids=lambda kind: kind.name)
def test_the_simulated_cloud_knows_the_same_facts(kind: InstanceType) -> None:
    facts = catalog().machines[kind.name]
    assert (facts.vcpus, facts.memory_mib) == (kind.vcpus, int(kind.memory_gib) * 1024)
    assert (facts.gpu.count, facts.gpu.memory_mib) == (kind.gpu.count, kind.gpu.memory_gib * 1024)


def test_prices_are_plausible_per_gpu() -> None:
    ranges = {
        "L4": (0.3, 2.2),
        "RTX PRO 6000": (1, 10),
        "A100": (1.2, 7),
        "H100": (2, 16),
        "H200": (3, 16),
        "B200": (3, 20),
        "T4": (0.1, 2),
        "V100": (0.5, 5),
    }
    for (_, name, market), one in PRICES.items():
        kind = load().types[name]
        low, high = ranges[kind.gpu.model]
        assert low * (0.5 if market is Market.SPOT else 1) <= one / kind.gpu.count <= high, (market, name)


def test_spot_is_never_dearer_than_on_demand() -> None:
    for (region, name, market), one in PRICES.items():
        if market is Market.SPOT:
            fixed = price(name, Market.ON_DEMAND, region)
            assert fixed is None or one < fixed


def test_a_larger_size_of_a_family_costs_more_per_gpu_added() -> None:
    one, eight = price("a2-highgpu-1g"), price("a2-highgpu-8g")
    assert one is not None
    assert eight is not None
    assert abs(eight - 8 * one) < Decimal("0.01")


def test_every_type_boots_from_a_disk_that_its_family_takes() -> None:
    disks = {name: machine.boot_disk for name, machine in load().machines.items()}
    assert set(disks) == set(load().types)
    g4 = {f"g4-standard-{size}" for size in (48, 96, 192, 384)}
    hyperdisk = {name for name, disk in disks.items() if disk == "hyperdisk-balanced"}
    assert hyperdisk == {"a3-ultragpu-8g", "a4-highgpu-8g", *g4}
    assert {disk for name, disk in disks.items() if name.startswith("a3-")} == {"pd-ssd", "hyperdisk-balanced"}


def test_types_that_boot_from_hyperdisk_attach_no_other_volume() -> None:
    for disk_type, fits in ((None, False), ("pd-ssd", False), ("hyperdisk-balanced", True)):
        account = GcpAccount(
            name="main", provider="gcp", project="project-1", regions=["us-central1"], disk_type=disk_type
        )
        parts = account.vm_parts
        assert parts.volume_kind is not None
        for name in load().types:
            is_alone = family(name) in HYPERDISK_ONLY
            objection = parts.volume_objection(name, [parts.volume_kind])
            assert (objection is None) == (fits or not is_alone), name


def test_some_a3_and_a4_types_are_not_sold_on_demand() -> None:
    missing = {name for name, markets in load().markets.items() if "on_demand" not in markets}
    assert missing == {"a3-highgpu-1g", "a3-highgpu-2g", "a3-highgpu-4g", "a3-ultragpu-8g", "a4-highgpu-8g"}
    assert all("spot" in markets for markets in load().markets.values())
    assert not {name for _, name, market in PRICES if market is Market.ON_DEMAND} & missing


def test_a_vm_is_of_the_type_that_its_accelerators_make() -> None:
    assert load().name_of("n1-standard-16", {"nvidia-tesla-t4": 2}) == "n1-standard-16-2xt4"
    assert load().name_of("n1-standard-16", {"nvidia-tesla-v100": 2}) == "n1-standard-16-2xv100"
    assert load().name_of("n1-standard-16", {}) == "n1-standard-16"
    assert load().name_of("a2-highgpu-2g", {"nvidia-tesla-a100": 2}) == "a2-highgpu-2g"
