"""Each brake has one name: the table of docs/operations.md, the log, the metric, the summary and the accounts use it."""

import re
from collections.abc import Mapping
from types import SimpleNamespace

import pytest
from fastapi import FastAPI

from app.domain.brakes import OF_INSTALLATION, OF_REGION, BrakeName
from app.prerequisites import ensure_operator_key
from tests.api.conftest import Caller
from tests.house.sources import ROOT
from tests.observability.promql import evaluate
from tests.observability.world import World

CAUSES: Mapping[BrakeName, str] = {
    BrakeName.HOLD: """UPDATE installation SET hold = '{"reason": "another timeline"}'""",
    BrakeName.LAUNCHES_STOPPED: """UPDATE installation SET launches_stopped = '{"by": "key_1"}'""",
    BrakeName.PINNED_IDENTITY: "UPDATE account SET state = 'disabled'",
    BrakeName.CREDENTIALS_REJECTED: "UPDATE account SET state = 'failing'",
    BrakeName.CORDON: """UPDATE account SET cordoned = '{"by": "key_1", "since": "2026-07-01T12:00:00Z"}'""",
    BrakeName.OFFERING_CORDON: """UPDATE account_region SET
        cordons = '[{"zone": null, "instance_type": "g5.xlarge", "market": null, "by": "key_1"}]'""",
    BrakeName.DRAINING: "UPDATE account SET state = 'draining'",
    BrakeName.ACCOUNT_BLOCKED: """UPDATE account_region SET blocked_since = now(), blocked_until = now() + interval '10 minutes',
        blocked_by = '{"code": "Disabled", "message": "no"}'""",
    BrakeName.SILENCE: """UPDATE account_region SET last_error =
        jsonb_build_object('code', 'Timeout', 'message', 'no answer', 'since', now() - interval '31 seconds')""",
    BrakeName.VANISHED: """UPDATE account_region SET vanishing = '{"tenant_1": 2, "tenant_2": 3}'""",
    BrakeName.ROWLESS: "UPDATE account_region SET rowless_cycles = 1",
    BrakeName.FIRST_LISTING: "UPDATE account_region SET last_listing_started_at = now() - interval '1 hour'",
    BrakeName.REGION_LEFT: """UPDATE account SET config = '{"regions": ["eu-west-1"]}'""",
}
"""An active brake, for an account with one region and a live VM."""
OVER: Mapping[BrakeName, str] = {
    BrakeName.VANISHED: """UPDATE account_region SET vanishing = '{"tenant_1": 3}'""",
    BrakeName.ROWLESS: "UPDATE account_region SET rowless_cycles = 3",
    BrakeName.ACCOUNT_BLOCKED: "UPDATE account_region SET blocked_until = now()",
    BrakeName.SILENCE: "UPDATE account_region SET last_error = last_error - 'since'",
    BrakeName.FIRST_LISTING: "UPDATE account_region SET last_listing_started_at = now() + interval '1 second'",
}


@pytest.fixture
async def operator(app: FastAPI, database_url: str) -> Caller:
    return Caller(app, ensure_operator_key(database_url, None))


async def shown(world: World, operator: Caller) -> list[set[str]]:
    """The names in the metric, the summary and the accounts."""
    told = await world.scrape()
    summary = (await operator.get("/v1/ops/summary")).json()["active_brakes"]
    (account,) = (await operator.get("/v1/ops/accounts")).json()["items"]
    return [
        {dict(labels)["brake"] for labels in evaluate("gpulease_brake_active > 0", told)},
        {one["brake"] for one in summary},
        set(account["brakes"]),
    ]


@pytest.mark.parametrize("brake", BrakeName)
async def test_a_brake_has_its_name_everywhere_while_it_is_set(
    world: World, operator: Caller, brake: BrakeName
) -> None:
    world.run("UPDATE account_region SET last_listing_started_at = now() + interval '1 second'")
    before = await shown(world, operator)
    world.fleet.run(CAUSES[brake])
    during = await shown(world, operator)
    of_accounts = set() if brake in OF_INSTALLATION else {str(brake)}
    assert (before, during) == ([set()] * 3, [{str(brake)}, {str(brake)}, of_accounts])
    (one,) = (await operator.get("/v1/ops/summary")).json()["active_brakes"]
    place = SimpleNamespace(account=one["account"], region=one["region"])
    assert (place.account is None) == (brake in OF_INSTALLATION)
    assert (place.region is not None) == (brake in OF_REGION)
    if brake in OVER:
        world.fleet.run(OVER[brake])
        assert await shown(world, operator) == [set()] * 3


def test_the_table_of_the_page_has_a_row_for_each_brake() -> None:
    page = (ROOT / "docs" / "operations.md").read_text(encoding="utf-8")
    table = page.partition("\n## Brakes\n")[2].partition("\n## ")[0]
    assert set(re.findall(r"^\| `(\w+)`", table, re.MULTILINE)) == set(BrakeName)


@pytest.mark.parametrize("brake", BrakeName)
def test_each_brake_is_logged_where_it_is_set(brake: BrakeName) -> None:
    """The line `brake set`: what writes it takes the name from the same list."""
    sources = [
        path.read_text(encoding="utf-8") for room in ("workers", "app/services") for path in (ROOT / room).rglob("*.py")
    ]
    assert any(f"BrakeName.{brake.name}" in text and "log" in text for text in sources)
