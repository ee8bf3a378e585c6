"""GET /v1/costs/focus: each row keeps the rules of FOCUS 1.2, and the rows add up to the costs."""

import csv
import gzip
import io
import json
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from itertools import pairwise
from typing import Any

import pytest
from fastapi import FastAPI
from sqlalchemy import func

from app.db.core.engine import copy_csv
from app.db.schema.tables import attempt, lease, usage_record
from app.db.usage import focus
from app.db.usage.focus import FocusPosition
from app.domain.focus import COLUMNS, month_period
from app.services.money.focus import FocusService
from app.services.principal import Principal, Role
from tests.api.conftest import Caller
from tests.api.focus_rules import MANDATORY, RULES, check
from tests.api.test_costs import clock, costs, of, run_job, store
from tests.db.store import Store
from tests.db.usage.histories import Billed, add, end

__all__ = ["store"]  # a fixture

HOUR = timedelta(hours=1)


def last_month(store: Store) -> datetime:
    return (clock(store).replace(day=1, hour=0, minute=0, second=0, microsecond=0) - timedelta(days=1)).replace(day=3)


def use(store: Store, day: datetime) -> None:
    """A VM with disks, an address and a new price, one without, and ends that are corrected later."""
    first = Billed(
        day,
        30 * HOUR,
        Decimal("1.006"),
        changes=((timedelta(minutes=95, microseconds=1), Decimal("1.37")),),
        disk=Decimal("0.511"),
        address=Decimal("0.005"),
        listed=Decimal("4.1"),
    )
    second = Billed(day + HOUR / 3, 7 * HOUR, Decimal("3.333333"))
    ids = [add(store, first, price_source="list"), add(store, second, market="on_demand", disk_gib=None)]
    store.write(lease, store.row(attempt, ids[0]).lease_id, labels={"team": 'a,"b"', "x": ""}, name='="1+1"')
    for late in (3 * HOUR, timedelta(0)):
        for attempt_id, one in zip(ids, (first, second), strict=True):
            end(store, attempt_id, one.ended + late)
            store.write(attempt, attempt_id, ended_at=func.now())
        run_job(store)


def rows_of(text: str) -> list[dict[str, str]]:
    reader = csv.DictReader(io.StringIO(text))
    assert tuple(reader.fieldnames or ()) == COLUMNS
    return list(reader)


def test_the_columns_are_those_of_the_specification() -> None:
    ours = [name for name in COLUMNS if name.startswith("x_")]
    assert set(COLUMNS) - set(ours) == RULES.keys() >= MANDATORY
    assert len(MANDATORY) == 21
    assert COLUMNS[-len(ours) :] == tuple(ours), "columns of our own come last"
    assert all(a < b for a, b in pairwise(name for name in COLUMNS if name not in ours))


async def test_every_row_keeps_the_rules_and_the_rows_are_the_costs(alice: Caller, store: Store) -> None:
    day = last_month(store)
    use(of(store, alice), day)
    answer = await alice.get("/v1/costs/focus", params={"month": f"{day:%Y-%m}"})
    assert answer.headers["content-disposition"] == f'attachment; filename="focus-{day:%Y-%m}.csv"'
    rows = rows_of(answer.text)
    for row in rows:
        check(row)
    assert {row["ServiceCategory"] for row in rows} == {"Compute", "Storage", "Networking"}
    assert {row["PricingCategory"] for row in rows if row["ServiceCategory"] == "Compute"} == {"Dynamic", "Standard"}
    corrections = [row for row in rows if row["ChargeClass"]]
    assert corrections, "the ends were noticed in the next month"
    assert {row["x_Revision"] for row in corrections} == {"1"}
    start, until = month_period(f"{day:%Y-%m}")
    total = (await costs(alice, **{"from": start.isoformat(), "to": until.isoformat()}))["total"]
    billed, listed = (sum(Decimal(row[name]) for row in rows) for name in ("BilledCost", "ListCost"))
    assert abs(billed - Decimal(total["cost"])) < Decimal("0.000001")
    assert abs(listed - Decimal(total["list_cost"])) < Decimal("0.000001")
    assert sum(Decimal(row["x_GpuHours"] or 0) for row in rows) == pytest.approx(Decimal(total["gpu_hours"]))
    labels = {row["Tags"] for row in rows if row["ResourceName"] == '\'="1+1"'}
    assert [json.loads(found) for found in labels] == [{"team": 'a,"b"', "x": ""}]
    assert {row["SubAccountName"] for row in rows} == {"alice"}


async def test_gzip_and_pages_change_nothing(app: FastAPI, alice: Caller, bob: Caller, store: Store) -> None:
    day = last_month(store)
    for caller in (alice, bob):
        use(of(store, caller), day)
    month = {"month": f"{day:%Y-%m}"}
    plain = await alice.get("/v1/costs/focus", params=month, headers={"Accept-Encoding": "identity"})
    packed = await alice.get("/v1/costs/focus", params=month, headers={"Accept-Encoding": "gzip"})
    assert (packed.headers["content-encoding"], "content-encoding" in plain.headers) == ("gzip", False)
    assert packed.text == plain.text
    service = FocusService(app.state.services.context, page_records=3)
    facts: dict[str, Any] = {"key_id": "key_x", "key_name": "x", "tenant_id": alice.tenant_id, "address": None}
    principal = Principal(role=Role.ADMIN, request_id="x", **facts)
    parts = [part async for part in (await service.export(principal, month["month"], None, compressed=True)).content]
    assert gzip.decompress(b"".join(parts)).decode() == plain.text
    assert len(rows_of(plain.text)) > len(store.rows(usage_record)) / 2


async def test_operators_export_all_tenants_and_members_none(
    operator: Caller, alice: Caller, bob: Caller, store: Store
) -> None:
    day = last_month(store)
    for caller in (alice, bob):
        use(of(store, caller), day)
    month = {"month": f"{day:%Y-%m}"}
    every = rows_of((await operator.get("/v1/costs/focus", params=month)).text)
    assert {row["SubAccountId"] for row in every} == {alice.tenant_id, bob.tenant_id}
    chosen = (await operator.get("/v1/costs/focus", params={**month, "tenant_id": bob.tenant_id})).text
    assert chosen == (await bob.get("/v1/costs/focus", params=month)).text
    member = await bob.member("member")
    assert (await member.get("/v1/costs/focus", params=month)).status_code == 403
    assert (await bob.get("/v1/costs/focus", params={**month, "tenant_id": alice.tenant_id})).status_code == 422


async def test_row_level_security_alone_keeps_tenants_apart(
    app: FastAPI, alice: Caller, bob: Caller, store: Store
) -> None:
    day = last_month(store)
    for caller in (alice, bob):
        use(of(store, caller), day)
    sql, arguments = focus.page(month_period(f"{day:%Y-%m}"), FocusPosition(day), within=None, limit=1000)
    async with app.state.services.context.database.transaction(alice.tenant_id) as connection:
        content = (await copy_csv(connection, sql, arguments)).decode()
    assert alice.tenant_id in content
    assert bob.tenant_id not in content


@pytest.mark.parametrize("month", ["2026", "2026-13", "2026-1", "2026-11-01", "x"])
async def test_a_wrong_month_is_refused(alice: Caller, month: str) -> None:
    answer = await alice.get("/v1/costs/focus", params={"month": month})
    assert (answer.status_code, answer.json()["errors"][0]["pointer"]) == (422, "#/query/month")


async def test_a_month_without_use_has_a_header(alice: Caller) -> None:
    assert rows_of((await alice.get("/v1/costs/focus", params={"month": "2026-01"})).text) == []


def test_months_end_where_the_next_begins() -> None:
    assert month_period("2028-02") == (datetime(2028, 2, 1, tzinfo=UTC), datetime(2028, 3, 1, tzinfo=UTC))
    assert month_period("2026-12")[1] == datetime(2027, 1, 1, tzinfo=UTC)
