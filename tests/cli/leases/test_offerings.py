"""`offerings`: zones merged, prices compared."""

import json

import pytest

from tests.cli.conftest import Cli
from tests.cli.fake_api import PLACE, FakeApi, Json


def _offering(zone: str, price: str, **changes: object) -> Json:
    return {**PLACE, "zone": zone, "price_per_hour": price, "price_per_gpu_hour": str(float(price) / 8), **changes}


@pytest.fixture(autouse=True)
def items(api: FakeApi) -> list[Json]:
    items = [
        _offering("us-east-1a", "21.96"),
        _offering("us-east-1b", "21.96"),
        _offering("us-east-1c", "24.00"),
        _offering("europe-west4-a", "16.00", provider="gcp", region="europe-west4", instance_type="a2-highgpu-8g"),
        _offering("us-east-1a", "32.00", market="on_demand"),
        _offering("us-east-1a", "8.00", gpu={"model": "T4", "count": 8, "memory_gib": 16}, price_per_gpu_hour=None),
    ]
    api.documents["GET", "/v1/offerings"] = {"items": items, "next_cursor": None}
    return items


def test_zones_with_one_price_share_a_line(cli: Cli) -> None:
    lines = cli("offerings").stdout.splitlines()
    assert len(lines) == 1 + 5
    assert "us-east-1a,b" in lines[1]
    assert len(cli("offerings", "--zones").stdout.splitlines()) == 1 + 6


def test_regions_with_one_price_share_a_line_whatever_their_launches_were(cli: Cli, items: list[Json]) -> None:
    states = {"status": "cooling_off", "reason": "capacity", "until": None}
    items += [
        _offering("us-west-2a", "21.96", region="us-west-2", availability=states),
        _offering("us-west-2b", "21.96", region="us-west-2"),
        *(_offering(f"eu-{n}a", "24.00", region=f"eu-{n}") for n in range(4)),
    ]
    lines = cli("offerings", "--wide").stdout.splitlines()
    assert len(lines) == 1 + 5
    assert "us-east-1a,b us-west-2a,b " in lines[1]
    assert "1 cooling_off capacity" in lines[1]
    assert "us-east-1c eu-0a and 3 regions" in lines[2]


def test_an_unknown_price_is_no_number(cli: Cli, items: list[Json]) -> None:
    items[:] = [
        {**PLACE, "market": "spot", "price_per_hour": None, "price_per_gpu_hour": None, "price_status": "missing"}
    ]
    cells = dict(zip(*(line.split(",") for line in cli("offerings", "--csv").stdout.splitlines()), strict=True))
    assert (cells["USD/H"], cells["USD/GPU"], cells["PRICE IS"]) == ("", "", "missing")
    header, row = cli("offerings", "--wide").stdout.splitlines()
    assert row[header.index("USD/H") :].split()[0] == "-"


def test_programs_get_every_zone(cli: Cli, items: list[Json]) -> None:
    assert json.loads(cli("offerings", "--json").stdout)["items"] == items
    assert len(cli("offerings", "--output", "csv").stdout.splitlines()) == 1 + 6


def test_the_limit_counts_lines(cli: Cli) -> None:
    result = cli("offerings", "--limit", "2")
    assert len(result.stdout.splitlines()) == 1 + 2
    assert "--limit 0 shows all" in result.stderr


def test_prices_per_gpu_are_compared_by_provider(cli: Cli) -> None:
    header, *rows = cli("offerings", "--compare").stdout.splitlines()
    assert header.split() == ["GPU", "MARKET", "AWS", "GCP", "CHEAPEST", "LOCATION"]
    on_demand, spot = (row.split() for row in rows)
    assert on_demand[:6] == ["A100", "40", "GiB", "on_demand", "4.000", "-"]
    assert spot[:6] == ["A100", "40", "GiB", "spot", "2.745", "2.000"]
    assert spot[-2:] == ["gcp", "europe-west4-a"]
