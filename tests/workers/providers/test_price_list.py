"""The price lists that come with the adapters, and their file format."""

from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path

import pytest

from app.domain.offerings import Market
from workers.price_lists.compare import of_listings
from workers.price_lists.tables import compare, read
from workers.providers.price_list import COLUMNS, parse, render
from workers.providers.registry import catalogue, price_list_path
from workers.providers.types import Price

PROVIDERS = ("aws", "azure", "gcp")
FACTS = Path(__file__).parent / "facts" / "prices_mid_2026.csv"
JULY, AUGUST = (datetime(2026, month, 1, tzinfo=UTC) for month in (7, 8))


def price(amount: str, as_of: datetime = JULY, source: str = "list") -> Price:
    return Price(per_hour=Decimal(amount), as_of=as_of, source=source)


@pytest.mark.parametrize("provider", PROVIDERS)
def test_a_shipped_list_is_in_canonical_form_and_names_only_types_of_the_catalogue(provider: str) -> None:
    text = price_list_path(provider).read_text(encoding="utf-8")
    prices = parse(text)
    assert text == render(prices)
    assert {name for _, name, _ in prices} <= set(catalogue(provider).types)
    assert all(0 < one.per_hour < 200 and one.source for one in prices.values())


def test_a_list_is_read_as_it_was_written_and_sorted() -> None:
    prices = {
        ("b", "t", Market.SPOT): price("0.5"),
        ("a", "t", Market.ON_DEMAND): price("48.00", AUGUST, "a, later list"),
        ("b", "t", Market.ON_DEMAND): price("1.250"),
    }
    text = render(prices)
    assert parse(text) == prices
    assert text.splitlines()[1:] == [
        "# source: list",
        "# as-of: 2026-07-01",
        ",".join(COLUMNS),
        'a,t,on_demand,48,2026-08-01,"a, later list"',
        "b,t,on_demand,1.25,,",
        "b,t,spot,0.5,,",
    ]
    assert parse(render({})) == {}


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        ("a,t,on_demand,1.00,,", "line 5 is a second price of a t on_demand"),
        ("a,t,lent,1.00,,", "line 5 is not a price"),
        ("a,t,spot,much,,", "line 5 is not a price"),
        ("a,t,spot,0.00,,", "line 5 is not a price: it is not above zero"),
        ("a,t,spot", "line 5 is not a price"),
    ],
)
def test_a_wrong_line_is_named(line: str, reason: str) -> None:
    head = ["# source: list", "# as-of: 2026-07-01", ",".join(COLUMNS), "a,t,on_demand,2,,"]
    with pytest.raises(ValueError, match=reason):
        parse("\n".join([*head, line]))


def test_the_shipped_lists_agree_with_a_table_of_mid_2026() -> None:
    """`facts/README.md` states the source of the table and the rule by which its rows were chosen."""
    with FACTS.open(encoding="utf-8", newline="") as lines:
        rows = read(lines)
    assert [tuple(row.values()) for row in rows] == sorted(tuple(row.values()) for row in rows)
    result = compare(of_listings(), rows, Decimal("0.05"))
    assert not result.differences
    assert result.compared > 100
