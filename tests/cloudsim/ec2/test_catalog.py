from decimal import Decimal

from cloudsim.ec2.catalog import REGIONS, catalog
from cloudsim.world import Market


def test_spot_is_cheaper_everywhere() -> None:
    assert all(offer.spot < offer.on_demand for offer in catalog().offers.values())


def test_reference_prices_on_demand() -> None:
    offers = catalog().offers
    prices = {name: offers["us-east-1a", name].on_demand for name in ("p4d.24xlarge", "g5.xlarge", "g4dn.xlarge")}
    assert prices == {
        "p4d.24xlarge": Decimal("21.957642"),
        "g5.xlarge": Decimal("1.006"),
        "g4dn.xlarge": Decimal("0.526"),
    }


def test_every_type_is_sold_somewhere_and_none_everywhere() -> None:
    facts = catalog()
    for name in facts.machines:
        zones = {zone for zone, machine in facts.offered if machine == name}
        assert zones
        assert zones < set(facts.zones)


def test_families_count_against_their_own_quota() -> None:
    codes = {
        name: (
            catalog().machines[name].quota_codes[Market.ON_DEMAND],
            catalog().machines[name].quota_codes[Market.SPOT],
        )
        for name in ("p4d.24xlarge", "p5.48xlarge", "g6.xlarge")
    }
    assert codes == {
        "p4d.24xlarge": ("L-417A185B", "L-7212CCBC"),
        "p5.48xlarge": ("L-417A185B", "L-C4BD4855"),
        "g6.xlarge": ("L-DB2E81BA", "L-3819A6DF"),
    }


def test_zones_belong_to_their_regions() -> None:
    facts = catalog()
    assert all(facts.region_of(zone) == region for region, zones in REGIONS.items() for zone in zones)
    assert facts.region_of("moon") is None
