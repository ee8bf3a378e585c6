"""What the rules shape for people: money, a place, a price's status, a schema that does not fit."""

from datetime import timedelta
from decimal import Decimal
from typing import Any

import pytest

from app.domain.money import format_money
from app.domain.offerings import Gpu, InstanceType, Interconnect, NetworkFabric, PriceStatus
from app.domain.placed import hardware, placement
from app.domain.rates import Rate
from app.domain.schema import SchemaRevisions
from tests.domain.samples import NOW, ago, offering

PLACE = {
    "provider": "aws",
    "account": "main",
    "region": "us-east-1",
    "zone": "us-east-1a",
    "instance_type": "g5.xlarge",
    "market": "spot",
}


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ("21.96", "21.96"),
        ("0.526", "0.526"),
        ("100", "100.00"),
        ("0.0000004", "0.00"),
        ("1.2345678", "1.234568"),
        ("10", "10.00"),
    ],
)
def test_money_has_two_decimals_and_six_at_most(value: str, text: str) -> None:
    assert format_money(Decimal(value)) == text


def test_a_place_is_stored_as_it_is_shown() -> None:
    gpu = Gpu(model="A10G", count=1, memory_gib=24, interconnect=Interconnect.PCIE)
    kind = InstanceType(
        name="g5.xlarge", gpu=gpu, vcpus=4, memory_gib=Decimal("16.5"), network_fabric=NetworkFabric.EFA
    )
    facts = hardware(kind, {"id": "ami-1", "name": "Base", "unknown": "left out"})
    assert facts == {
        "gpu": {
            "vendor": "NVIDIA",
            "model": "A10G",
            "count": 1,
            "memory_gib": 24,
            "fraction": 1.0,
            "interconnect": "PCIe",
            "nvlink_generation": None,
            "driver": "nvidia",
        },
        "vcpus": 4,
        "memory_gib": 16.5,
        "local_disk_gib": 0,
        "network": {"gbps": None, "fabric": "EFA"},
        "image": {"id": "ami-1", "name": "Base", "driver_version": None},
    }
    shown = placement(PLACE, facts, Rate(compute=Decimal("0.4"), disk=Decimal("0.1")), "i-1")
    unreserved = {"reservation": None, "reserved_until": None, "queued_at_provider": None}
    parts = {"compute": "0.40", "disk": "0.10", "address": None}
    own = {"price_per_hour": "0.50", "parts": parts, "instance_id": "i-1", "extendable": True}
    assert shown == {**facts, **PLACE, **own, **unreserved}


@pytest.mark.parametrize(
    ("facts", "status"),
    [
        ({"price": None, "price_live": True}, PriceStatus.MISSING),
        ({"price_live": False, "price_as_of": ago(10_000_000)}, PriceStatus.LISTED),
        ({"price_live": True, "price_as_of": ago(3599)}, PriceStatus.LIVE),
        ({"price_live": True, "price_as_of": ago(3600)}, PriceStatus.STALE),
        ({"price_live": True, "price_as_of": None}, PriceStatus.STALE),
    ],
    ids=str,
)
def test_a_price_says_how_good_it_is(facts: dict[str, Any], status: PriceStatus) -> None:
    assert offering(**facts).price_status(NOW, timedelta(hours=1)) is status


@pytest.mark.parametrize(
    ("found", "problem"),
    [
        ("0002", None),
        ("0003", None),
        ("0001", "is at revision 0001, expected 0002"),
        (None, "has no schema, expected 0002"),
    ],
)
def test_a_newer_schema_fits_and_an_older_one_is_named(found: str | None, problem: str | None) -> None:
    assert SchemaRevisions("0002", frozenset({"0001", "0002"})).problem(found) == problem
