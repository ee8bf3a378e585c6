"""A lease has one price per hour: what is asked, planned, quoted, listed and extended is what is billed."""

import asyncio
import csv
from collections.abc import Callable, Iterator
from decimal import Decimal
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console, RenderableType
from sqlalchemy import func, insert, select, text

from app.cli.leases import plan_view, quotes, views
from app.cli.render.output import rounded
from app.db.schema.tables import event, part_price
from app.domain.ids import LeaseId
from cloudsim.testing import Control
from tests.api.conftest import Caller, serving, written_operator, written_tenant
from tests.harness.cached_settings import read_settings
from tests.harness.databases import Databases
from tests.workers.cloud_samples import AWS
from tests.workers.fleet import ACCOUNT, REGION, Fleet
from tests.workers.virtual_time import SCHEMA, VirtualTime
from workers.jobs.record_usage import record_usage

BODY = {"instance_types": [AWS.instance_type], "disk_gib": 2000, "public_ip": True, "ttl_seconds": 4 * 3600}


@pytest.fixture
def fleet(make_fleet: Callable[..., Fleet], sim: Control, tmp_path: Path) -> Fleet:
    """Network disks and addresses have prices whose rates are not round."""
    fleet = make_fleet(config=AWS.write_config(tmp_path, sim))
    here = {"account": ACCOUNT, "region": REGION, "instance_type": "*"}
    origin = {"price_as_of": func.now(), "price_source": "test", "price_live": True}
    fleet.runtime.database.run(text("DELETE FROM part_price"))
    for part, price in (("disk", "0.0817"), ("address", "0.005003")):
        fleet.runtime.database.run(insert(part_price).values(**here, **origin, part=part, price=Decimal(price)))
    fleet.runtime.catalogue.forget()
    return fleet


def printed(content: RenderableType) -> str:
    """What a terminal shows."""
    console = Console(file=StringIO(), width=200)
    console.print(content)
    assert isinstance(console.file, StringIO)
    return console.file.getvalue()


def prices(documents: dict[str, Any]) -> Iterator[tuple[str, str]]:
    """Every price per hour of the answers of the API, with its place."""
    for name, document in documents.items():
        yield from _prices(document, name)


def _prices(value: Any, at: str) -> Iterator[tuple[str, str]]:
    if isinstance(value, list):
        for number, item in enumerate(value):
            yield from _prices(item, f"{at}.{number}")
    if isinstance(value, dict):
        for name, item in value.items():
            if name == "price_per_hour" and item is not None:
                yield at, item
            yield from _prices(item, f"{at}.{name}")
        if value.get("parts") and "price_per_hour" in value:
            parts = [Decimal(part) for part in value["parts"].values()]
            assert len(parts) == 3
            assert sum(parts) == Decimal(value["price_per_hour"]), at


def test_every_figure_of_a_lease_is_the_price_that_it_is_billed(
    fleet: Fleet, database_url: str, broker_url: str, databases: Databases, virtual_time: VirtualTime
) -> None:
    del virtual_time  # it has made the schema
    databases.add(_SEARCH_PATH.format(f"SET search_path = {SCHEMA}, pg_catalog, public"), {})
    api_settings = read_settings(database_url=database_url, broker_url=broker_url)
    documents: dict[str, Any] = {}

    async def converse() -> None:
        async with serving(api_settings) as app, Caller(app, written_operator(databases)) as operator:
            admin = await asyncio.to_thread(written_tenant, databases, operator.app, "lab")
            documents["plan"] = (await admin.post("/v1/leases/plan", json=BODY)).json()
            documents["quote"] = (await admin.post("/v1/quotes", json=BODY)).json()
            documents["queued"] = (await admin.post("/v1/leases", json=BODY)).json()
            path = f"/v1/leases/{documents['queued']['id']}"
            documents["waiting"] = (await admin.get(f"{path}/explain")).json()["candidates"]
            await asyncio.to_thread(fleet.drive_to, LeaseId(documents["queued"]["id"]), "active")
            await asyncio.to_thread(_live_for_hours, fleet)
            documents["lease"] = (await admin.get(path)).json()
            documents["list"] = (await admin.get("/v1/leases")).json()
            documents["attempts"] = (await admin.get(f"{path}/attempts")).json()
            documents["events"] = [row.data for row in fleet.runtime.database.all(select(event.c.data))]
            documents["extended"] = (await admin.post(f"{path}/extend", json={"extend_by_seconds": 60})).json()
            documents["focus"] = (await admin.get("/v1/costs/focus")).text

    asyncio.run(converse())
    databases.add(_SEARCH_PATH.format("RESET search_path"), {})
    focus = documents.pop("focus")
    candidates = documents["plan"]["candidates"]
    for document in (documents["plan"], documents["quote"]["plan"]):
        document["candidates"] = document["candidates"][:1]
        document["excluded"] = document["excluded_by_reason"] = []
    documents["waiting"] = documents["waiting"][:1]
    billed = documents["lease"]["cost"]["price_per_hour"]
    assert Decimal(billed) == fleet.lease(LeaseId(documents["lease"]["id"])).rate_per_hour
    assert Decimal(billed) > Decimal(documents["lease"]["cost"]["parts"]["compute"]) + Decimal("0.2"), (
        "disk and address"
    )
    shown = dict(prices(documents))
    assert set(shown.values()) == {billed}, shown
    assert {place.partition(".")[0] for place in shown} == documents.keys(), documents["events"]
    _check_terminal({**documents, "plan": {**documents["plan"], "candidates": candidates}}, billed)
    _check_focus(focus, Decimal(billed))


_SEARCH_PATH = "DO $$ BEGIN EXECUTE format('ALTER DATABASE %%I {}', current_database()); END $$"


def _live_for_hours(fleet: Fleet) -> None:
    for _ in range(10):
        fleet.let_pass(900)
        fleet.observe()
        while fleet.step():
            pass
    record_usage(fleet.runtime, "", "")


def _check_terminal(documents: dict[str, Any], billed: str) -> None:
    """The question, the plan, the quote, the list, the lease and the note of an extension."""
    term, figures = int(BODY["ttl_seconds"]), {str(rounded(billed)), str(rounded(billed, up=True))}
    texts = {
        "question": printed(plan_view.offer(documents["plan"], term)),
        "plan": printed(plan_view.plan(documents["plan"], term, every=False)),
        "quote": printed(quotes.view(documents["quote"])),
        "lease": printed(views.lease(documents["lease"])),
        "queued": printed(views.lease(documents["queued"])),
        "extension": views.extension(documents["lease"], documents["extended"]),
        "list": str(rounded(views.price_now(documents["list"]["items"][0]))),
    }
    assert [name for name, text in texts.items() if not any(figure in text for figure in figures)] == [], texts


def _check_focus(content: str, billed: Decimal) -> None:
    """A full hour of the machine, its disks and its address costs the price."""
    hours: dict[str, Decimal] = {}
    for row in csv.DictReader(StringIO(content)):
        start = row["ChargePeriodStart"]
        hours[start] = hours.get(start, Decimal(0)) + Decimal(row["BilledCost"])
    assert billed in {cost.quantize(Decimal("0.000001")) for cost in hours.values()}, hours
