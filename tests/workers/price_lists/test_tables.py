"""Comparing offerings with a table of prices: what counts as a difference, and how the command says it."""

from collections.abc import Mapping
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from app.db.schema.tables import offering
from app.domain.offerings import Gpu, InstanceType, Interconnect, Market
from tests.workers.fleet import Fleet
from workers.price_lists.commands import main
from workers.price_lists.compare import of_listings
from workers.price_lists.tables import COLUMNS, CataloguePrices, Place, compare, read

PLACE: Place = ("gcp", "us-central1", "a2-highgpu-1g")
A100 = Gpu(model="A100", count=1, memory_gib=40, interconnect=Interconnect.PCIE)
TYPE = InstanceType(name=PLACE[2], gpu=A100, vcpus=12, memory_gib=Decimal(85))
ROW = {
    **dict.fromkeys(COLUMNS, ""),
    **dict(zip(("provider", "region", "instance_type"), PLACE, strict=True)),
    "zone": "us-central1-a",
    "gpu_model": "A100-40GB",
    "gpu_count": "1",
    "gpu_memory_gib": "39",
    "vcpus": "12",
    "memory_gib": "85.0",
    "on_demand_usd_per_hour": "3.67",
    "spot_usd_per_hour": "1.80",
}


def held(on_demand: str, *spot: str, place: Place = PLACE) -> Mapping[Place, CataloguePrices]:
    prices = {Market.ON_DEMAND: frozenset({Decimal(on_demand)}), Market.SPOT: frozenset(map(Decimal, spot))}
    return {place: CataloguePrices(type=TYPE, prices=prices, source="list")}


def differing(ours: Mapping[Place, CataloguePrices], **row: str) -> list[str]:
    return [one.what for one in compare(ours, [{**ROW, **row}], Decimal("0.15")).differences]


def test_a_price_within_the_tolerance_is_no_difference() -> None:
    assert differing(held("4.20", "1.60")) == []
    assert differing(held("4.25", "1.50")) == ["on_demand", "spot"]


def test_the_nearest_of_several_prices_of_a_region_counts() -> None:
    assert differing(held("3.67", "0.9", "1.9", "7")) == []


def test_facts_of_a_type_are_compared_and_its_memory_may_be_nominal_or_usable() -> None:
    assert differing(
        held("3.67"), gpu_model="H100", gpu_count="2", vcpus="24", memory_gib="170", gpu_memory_gib="80"
    ) == [
        "gpu_model",
        "gpu_count",
        "vcpus",
        "memory_gib",
        "gpu_memory_gib",
    ]


def test_what_the_table_does_not_tell_or_doubts_is_not_compared() -> None:
    unsaid = dict.fromkeys(COLUMNS[4:11], "")
    assert differing(held("9", "9"), **unsaid) == []
    doubted = compare(held("9", "1.8"), [{**ROW, "note": "on-demand price doubtful"}], Decimal("0.15"))
    assert (doubted.differences, doubted.compared, doubted.doubtful) == ((), 1, 1)


def test_spot_prices_of_aws_differ_by_zone_and_are_left_out() -> None:
    place = ("aws", "us-east-1", "a2-highgpu-1g")
    assert differing(held("3.67", "99", place=place), provider="aws", region="us-east-1", zone="use1-az1") == []


def test_zones_of_a_region_tell_a_difference_once() -> None:
    rows = [{**ROW, "zone": f"us-central1-{letter}"} for letter in "abc"]
    (one,) = compare(held("9", "1.8"), rows, Decimal("0.15")).differences
    assert str(one) == "gcp us-central1 a2-highgpu-1g: on_demand is 9.00 (list), in the table 3.67, +145%"


def test_a_place_that_is_not_offered_is_counted_and_no_difference() -> None:
    found = compare({}, [ROW, ROW], Decimal("0.15"))
    assert (found.differences, found.unknown) == ((), 1)


@pytest.mark.parametrize(
    ("text", "said"),
    [("a,b\n1,2\n", "no column provider"), (",".join(COLUMNS) + "\naws,r,z,t,m,many,1,1,1,1,1,\n", "line 2")],
)
def test_a_file_that_is_no_such_table_is_told(text: str, said: str) -> None:
    with pytest.raises(ValueError, match=said):
        read(text.splitlines())


def table(path: Path, *rows: Mapping[str, str]) -> str:
    path.write_text("\n".join([",".join(COLUMNS), *(",".join(row[name] for name in COLUMNS) for row in rows)]))
    return str(path)


def test_the_command_compares_what_comes_with_the_adapters(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    p4d = {**ROW, "provider": "aws", "region": "us-east-1", "instance_type": "p4d.24xlarge"}
    facts = {"gpu_count": "8", "vcpus": "96", "memory_gib": "1152", "gpu_memory_gib": "40"}
    right, wrong = ({**p4d, **facts, "on_demand_usd_per_hour": price} for price in ("21.957642", "32.77"))
    assert main(["compare", table(tmp_path / "right.csv", right), "--catalogue"]) == 0
    assert main(["compare", table(tmp_path / "wrong.csv", wrong), "--catalogue"]) == 1
    assert "p4d.24xlarge: on_demand is 21.957642" in capsys.readouterr().out
    assert main(["compare", str(tmp_path / "wrong.csv"), "--catalogue", "--tolerance", "40"]) == 0
    assert main(["compare", str(tmp_path / "absent.csv"), "--catalogue"]) == 2
    assert "absent.csv" in capsys.readouterr().err


def test_all_three_lists_are_compared() -> None:
    assert {provider for provider, _, _ in of_listings()} == {"aws", "gcp", "azure"}


def test_the_command_compares_the_offerings(
    fleet: Fleet, database_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("GPULEASE_DATABASE_URL", database_url)
    g5: dict[str, Any] = {
        **dict.fromkeys(COLUMNS, ""),
        "provider": "aws",
        "region": "us-east-1",
        "instance_type": "g5.xlarge",
    }
    path = table(tmp_path / "prices.csv", {**g5, "on_demand_usd_per_hour": "1.006"})
    assert main(["compare", path]) == 0
    fleet.runtime.database.run(offering.update().values(price_per_hour=Decimal(2)))
    assert main(["compare", path]) == 1
    assert "on_demand is 2.00 (EC2 on-demand list prices" in capsys.readouterr().out
    monkeypatch.setenv("GPULEASE_DATABASE_URL", "postgresql://gpulease:a-secret@127.0.0.1:1/gpulease")
    assert main(["compare", path]) == 2
    assert "a-secret" not in capsys.readouterr().err
