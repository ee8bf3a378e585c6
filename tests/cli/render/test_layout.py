"""Tables that fit 80 columns: whole columns are left out, and no cell is cut."""

from collections.abc import Callable
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len
from typer.testing import Result

from app.cli.render.layout import Layout
from tests.cli.conftest import Cli
from tests.cli.fake_api import ACTIVE, BOOTING, PLACE, PROVISIONING, FakeApi, Json, a_lease

LIVE: Json = {**PROVISIONING, **BOOTING, **ACTIVE, **dict.fromkeys(("expires_at", "ends_at"), "2999-06-01T14:00:00Z")}
LONG_ID = "lease_01m84jncx1es4vd0pkyemx4c86"
COLUMNS = [(title, title) for title in "abcd"]


@pytest.fixture
def narrow(cli: Cli) -> Callable[..., Result]:
    """The command line in a terminal of 80 columns."""
    return replace(cli, environ={**cli.environ, "COLUMNS": "80"})


def must_be_readable(text: str) -> None:
    assert max(cell_len(line.rstrip()) for line in text.splitlines()) <= 80


def test_leases_fit_80_columns_and_the_note_names_what_is_missing(api: FakeApi, narrow: Callable[..., Result]) -> None:
    api.add(a_lease(1, **LIVE) | {"id": LONG_ID, "name": "lease-yemx4c86"})
    result = narrow("lease", "list")
    must_be_readable(result.stdout)
    header, *rows = result.stdout.splitlines()
    assert header.split() == ["NAME", "STATE", "GPUS", "LOCATION", "USD/H", "EXPIRES"]
    assert len(rows) <= 2
    assert {"lease-yemx4c86", "active", "us-east-1a"} <= set(result.stdout.split())
    assert "hidden columns: ID, TYPE, MARKET, COST USD, CREATED, GPU % (--wide shows all)" in result.stderr


def test_offerings_fit_80_columns(api: FakeApi, narrow: Callable[..., Result]) -> None:
    facts = {"vcpus": 96, "memory_gib": 1152.0, "price_status": "listed", "price_as_of": "2026-05-01T00:00:00Z"}
    cooling = {"status": "cooling_off", "until": "2026-06-01T00:00:00Z", "reason": "no_capacity"}
    api.documents["GET", "/v1/offerings"] = {
        "items": [{**PLACE, **facts, "availability": cooling}],
        "next_cursor": None,
    }
    result = narrow("offerings")
    must_be_readable(result.stdout)
    assert {"TYPE", "GPUS", "ZONE", "USD/H", "AVAILABILITY"} <= set(result.stdout.splitlines()[0].split())
    assert "cooling_off" in result.stdout
    assert "PRICE AS OF" in result.stderr


@given(st.lists(st.integers(1, 40), min_size=4, max_size=4), st.integers(1, 120), st.permutations("abcd"))
def test_columns_leave_in_the_order_of_their_priority(lengths: list[int], width: int, priority: list[str]) -> None:
    item = {title: "x" * length for title, length in zip("abcd", lengths, strict=True)}
    kept = list(Layout(priority).fit(COLUMNS, [item], width).widths)
    assert kept == [title for title in "abcd" if title in priority[: len(kept)]]
    assert len(kept) == 1 or sum(len(item[title]) + 2 for title in kept) - 2 <= width
    more = priority[: len(kept) + 1]
    assert len(kept) == 4 or sum(len(item[title]) + 2 for title in more) - 2 > width
