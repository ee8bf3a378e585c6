"""/metrics tells the truth of the whole installation, from the rows, whoever is asked."""

import json
import math
from collections import Counter

import pytest
from fastapi import FastAPI

from app.db.operations.metrics import statements
from app.db.operations.ops import StuckAfter
from app.domain.cool_off import CoolOffReason
from app.services.metrics import MetricsService
from app.settings import load_settings
from tests.api.conftest import Caller, serving
from tests.observability.promql import Scrape, evaluate
from tests.observability.world import World


def value(scraped: Scrape, expression: str) -> float:
    [found] = evaluate(expression, scraped).values()
    return found


async def test_the_fleet_is_counted_by_where_and_what(world: World) -> None:
    found = await world.scrape()
    where = '{provider="aws",account="main",region="us-east-1",market="on_demand",gpu_model="A10G"}'
    assert value(found, f"gpulease_vms{where}") == 1
    assert value(found, f"gpulease_gpus{where}") == 1
    assert value(found, f"gpulease_spend_per_hour{where}") == 1.006
    assert value(found, 'gpulease_leases{state="active"}') == 1
    assert value(found, 'gpulease_leases{state="queued"}') == 1
    assert value(found, 'gpulease_leases{state="releasing"}') == 0
    assert value(found, "gpulease_offerings") == 5
    assert not evaluate("gpulease_offerings_cooling_off", found)
    assert value(found, 'gpulease_account_state{account="main",state="ok"}') == 1
    assert value(found, 'gpulease_account_state{account="main",state="failing"}') == 0
    assert value(found, "gpulease_database_up") == 1
    assert 0 <= value(found, "gpulease_gc_last_complete_age_seconds") < 30
    assert 0 <= value(found, "gpulease_queue_age_seconds") < 30
    assert value(found, 'gpulease_processes{kind="worker"}') == 1


async def test_an_orphan_is_as_old_as_what_it_outlived(world: World) -> None:
    world.outlived()
    found = await world.scrape()
    assert 240 <= value(found, 'gpulease_orphan_vm_seconds{cause="ended_lease"}') < 270
    assert value(found, 'gpulease_orphan_vms{cause="ended_lease"}') == 1
    assert value(found, 'gpulease_orphan_vm_seconds{cause="other_attempt"}') == 0


async def test_an_orphan_that_was_launched_after_its_attempt_ended_is_as_old_as_itself(world: World) -> None:
    world.outlived()
    world.run("UPDATE orphan SET launched_at = now() - interval '1 minute'")
    assert 60 <= value(await world.scrape(), 'gpulease_orphan_vm_seconds{cause="ended_lease"}') < 90


async def test_a_vm_with_copied_tags_is_as_old_as_its_first_sight(world: World) -> None:
    """The attempt that its tags name has ended long ago, and has nothing to do with it."""
    world.outlived()
    world.run("UPDATE orphan SET cause = 'copied_tags', first_seen_at = now() - interval '1 minute'")
    assert 60 <= value(await world.scrape(), 'gpulease_orphan_vm_seconds{cause="copied_tags"}') < 90


async def test_an_orphan_that_is_gone_is_told_no_more(world: World) -> None:
    world.outlived()
    world.run("UPDATE orphan SET state = 'gone', gone_at = now()")
    assert value(await world.scrape(), "max(gpulease_orphan_vm_seconds)") == 0


async def test_a_place_is_old_until_its_first_complete_listing(world: World) -> None:
    world.run("UPDATE account_region SET last_complete_listing_at = NULL")
    assert value(await world.scrape(), "gpulease_gc_last_complete_age_seconds") >= 86_400


async def test_a_drained_account_and_a_region_left_out_are_not_waited_for(world: World) -> None:
    world.fleet.finish(world.active)
    world.run("UPDATE account SET config = %s", json.dumps({"regions": ["eu-west-1"]}))
    assert not evaluate("gpulease_gc_last_complete_age_seconds", await world.scrape())
    world.run("UPDATE account SET config = '{}', state = 'draining'")
    assert not evaluate("gpulease_gc_last_complete_age_seconds", await world.scrape())


async def test_a_drained_account_with_a_vm_is_watched(world: World) -> None:
    world.run("UPDATE account SET state = 'draining'")
    assert len(evaluate("gpulease_gc_last_complete_age_seconds", await world.scrape())) == 1


async def test_what_has_never_been_heard_of_is_infinitely_old(world: World) -> None:
    world.run("DELETE FROM worker_heartbeat")
    world.run("DELETE FROM invariant")
    world.run("UPDATE account SET provider = 'azure'")
    found = await world.scrape()
    assert value(found, 'gpulease_process_heartbeat_age_seconds{kind="worker"}') == math.inf
    assert value(found, "gpulease_invariant_check_age_seconds") == math.inf
    assert value(found, "gpulease_deadman_heartbeat_age_seconds") == math.inf


async def test_the_dead_man_switch_is_told_of_where_it_was_heard_of(world: World) -> None:
    assert not evaluate("gpulease_deadman_heartbeat_age_seconds", await world.scrape())
    world.run("INSERT INTO worker_heartbeat (name, kind) VALUES ('deadman', 'deadman')")
    assert 0 <= value(await world.scrape(), "gpulease_deadman_heartbeat_age_seconds") < 30


async def test_scrapes_within_five_seconds_ask_the_database_once(app: FastAPI) -> None:
    now = 100.0
    service = MetricsService(app.state.services.context, clock=lambda: now)
    first = await service.snapshot()
    assert first.complete
    assert set(first.rows) == set(statements(StuckAfter(release=1, launch=1, boot=1, boot_large=1)))
    now += 4.9
    assert await service.snapshot() is first
    now += 0.2
    assert await service.snapshot() is not first


async def test_without_a_database_the_process_still_tells_what_it_counted(broker_url: str) -> None:
    nowhere = "postgresql://nobody@127.0.0.1:1/nothing"
    async with (
        serving(load_settings(database_url=nowhere, broker_url=broker_url)) as app,
        Caller(app, None) as anonymous,
    ):
        answer = await anonymous.get("/metrics")
    assert answer.status_code == 200
    lines = answer.text.splitlines()
    assert "gpulease_database_up 0.0" in lines
    assert any(line.startswith("process_resident_memory_bytes") for line in lines)
    assert not any(line.startswith("gpulease_leases") for line in lines)


SILENT = """UPDATE account_region SET last_error = jsonb_build_object('class', 'OutcomeUnknown', 'code', 'Timeout',
    'message', 'no answer', 'since', now() - make_interval(secs => %s))"""
COOLING = "UPDATE offering SET cool_until = now() + interval '1 minute', cool_reason = %s WHERE market = 'spot'"


async def cooling_off(world: World) -> tuple[Counter[str], Counter[str]]:
    """Offerings in cool-off by reason, as the API's list shows them and as the metric counts them."""
    page = (await world.tenant.get("/v1/offerings")).json()
    assert len(page["items"]) == 5
    shown = [one["availability"] for one in page["items"]]
    samples = evaluate("gpulease_offerings_cooling_off", await world.scrape()).items()
    return (
        Counter(one["reason"] for one in shown if one["status"] == "cooling_off"),
        Counter({dict(labels)["reason"]: int(number) for labels, number in samples}),
    )


@pytest.mark.parametrize("reason", CoolOffReason)
async def test_a_cool_off_is_counted_as_the_api_shows_it(world: World, reason: str) -> None:
    world.run(COOLING, reason)
    assert await cooling_off(world) == (Counter({reason: 1}), Counter({reason: 1}))


@pytest.mark.parametrize(("seconds", "silent"), [("29", False), ("31", True)])
async def test_a_silent_region_is_counted_as_the_api_shows_it(world: World, seconds: str, silent: bool) -> None:
    """Also where an offering has a shorter cool-off of its own."""
    world.run(
        "UPDATE offering SET cool_until = now() + interval '10 seconds', cool_reason = 'refused' WHERE market = 'spot'"
    )
    world.run(SILENT, seconds)
    expected = Counter({"provider_error": 5} if silent else {"refused": 1})
    assert await cooling_off(world) == (expected, expected)


async def test_the_offerings_of_a_region_that_left_are_neither_shown_nor_counted(world: World) -> None:
    world.run(COOLING, "refused")
    world.run("UPDATE account SET config = %s", json.dumps({"regions": ["eu-west-1"]}))
    assert (await world.tenant.get("/v1/offerings")).json()["items"] == []
    scraped = await world.scrape()
    assert not evaluate("gpulease_offerings", scraped)
    assert not evaluate("gpulease_offerings_cooling_off", scraped)


async def test_refusals_in_a_row_end_with_a_launch_that_succeeds(world: World) -> None:
    """What is tried counts, in the words of offerings: each class of an error is one of them."""
    where = '{account="main",region="us-east-1",reason="%s"}'
    for kind in ("InvalidSpec", "NotPermitted", "InsufficientCapacity", "NetworkFull", "Unreachable"):
        world.refused(kind)
    found = await world.scrape()
    for reason, count in (("refused", 2), ("no_capacity", 2), ("provider_error", 1), ("provider_quota", 0)):
        assert value(found, "gpulease_refused_launches" + where % reason) == count
        assert value(found, f'gpulease_recent_launches{{outcome="{reason}"}}') == count
    assert value(found, 'gpulease_recent_launches{outcome="succeeded"}') == 0
    world.run("UPDATE attempt SET known_at = now() WHERE state = 'known'")
    found = await world.scrape()
    assert value(found, 'gpulease_recent_launches{outcome="succeeded"}') == 1
    assert value(found, 'gpulease_recent_launches{outcome="refused"}') == 2
    assert value(found, "sum(gpulease_refused_launches)") == 0


async def test_old_launches_and_those_that_were_never_sent_are_not_tried(world: World) -> None:
    world.refused("InvalidSpec", times=2)
    world.run("UPDATE attempt SET ended_at = now() - interval '61 minutes' WHERE n = 1 AND state = 'refused'")
    world.run("UPDATE attempt SET state = 'dead', error = NULL WHERE n = 2")
    assert value(await world.scrape(), "sum(gpulease_recent_launches)") == 0
    world.run("UPDATE attempt SET first_sent_at = now() WHERE n = 2")
    assert value(await world.scrape(), 'gpulease_refused_launches{reason="provider_error"}') == 1


async def test_a_job_is_compared_with_its_own_interval(world: World) -> None:
    late = "max by (kind) (gpulease_job_last_ok_age_seconds) / max by (kind) (gpulease_job_interval_seconds) > 3"
    world.run("UPDATE periodic_job SET last_ok_at = now() - interval '50 seconds', interval_seconds = 15")
    assert len(evaluate(late, await world.scrape())) == 1
    world.run("UPDATE periodic_job SET interval_seconds = 20")
    assert not evaluate(late, await world.scrape())
