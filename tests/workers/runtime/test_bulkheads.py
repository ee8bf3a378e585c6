"""A cloud that hangs holds a part of a process's threads, never all of them."""

import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager

import pytest
from sqlalchemy import insert, text, update

from app.db.fleet import offering_stats
from app.db.schema.tables import account, account_region, attempt, periodic_job
from app.domain.cool_off import CoolOffPause, CoolOffReason
from app.local.waiting import wait_until
from tests.workers.fleet import ACCOUNT, Fleet
from workers.jobs.runner import LANES, JobSpec, PeriodicRunner, ensure_jobs
from workers.observation.inventory import take_inventory
from workers.runtime.bulkheads import Bulkheads, CrowdedError
from workers.runtime.runtime import Runtime

SLOW = 0.05


@contextmanager
def calls(bulkheads: Bulkheads, count: int, account: str = "hanging") -> Iterator[None]:
    """So many calls under way, each in a thread of its own."""
    end, inside = threading.Event(), threading.Semaphore(0)

    def call() -> None:
        with bulkheads.inside(account):
            inside.release()
            end.wait(10)

    threads = [threading.Thread(target=call) for _ in range(count)]
    for thread in threads:
        thread.start()
    for _ in threads:
        assert inside.acquire(timeout=10)
    yield
    end.set()
    for thread in threads:
        thread.join()


def may_enter(bulkheads: Bulkheads, account: str = "hanging") -> bool:
    try:
        with bulkheads.inside(account):
            return True
    except CrowdedError:
        return False


def test_an_account_has_no_more_calls_than_its_share_and_others_have_theirs() -> None:
    bulkheads = Bulkheads(most=3, few=1, slow_after=60)
    with calls(bulkheads, 3):
        with pytest.raises(CrowdedError) as crowded, bulkheads.inside("hanging"):
            pass
        assert not crowded.value.slow
        assert may_enter(bulkheads, "another")
    assert may_enter(bulkheads)


def test_while_calls_are_slow_fewer_are_let_in_and_one_that_is_not_ends_that() -> None:
    bulkheads = Bulkheads(most=3, few=2, slow_after=SLOW)
    with ExitStack() as hanging:
        hanging.enter_context(calls(bulkheads, 1))
        assert may_enter(bulkheads)
        threading.Event().wait(2 * SLOW)
        with calls(bulkheads, 1):
            assert not may_enter(bulkheads)
            assert bulkheads.slow_for("hanging") > SLOW
    assert may_enter(bulkheads)
    assert bulkheads.slow_for("hanging") == 0.0
    with calls(bulkheads, 2):
        assert may_enter(bulkheads)


class Jobs:
    """Periodic jobs of two accounts; those of `hanging` come to no end before `let_go`."""

    def __init__(self, fleet: Fleet) -> None:
        self.done: list[str] = []
        self.let_go = threading.Event()
        places = [("hanging", f"region-{n}") for n in range(6)] + [("well", "region-0")]
        with fleet.runtime.database.begin() as connection:
            for name in ("hanging", "well"):
                connection.execute(insert(account).values(name=name, provider="aws", config={}))
            for name, region in places:
                connection.execute(insert(account_region).values(account=name, region=region))
                job = {"name": f"{name}/{region}", "kind": "test", "account": name, "region": region}
                connection.execute(insert(periodic_job).values(**job, interval_seconds=0.2))
        kind = JobSpec(name="test", run=self.run, interval=lambda _: 0.2)
        self.runner = PeriodicRunner(fleet.runtime, {"test": kind})

    def run(self, _runtime: Runtime, account: str, _region: str) -> None:
        if account == "hanging":
            self.let_go.wait(20)
        self.done.append(account)


def test_a_cloud_that_hangs_does_not_hold_up_the_jobs_of_another(fleet: Fleet) -> None:
    jobs = Jobs(fleet)
    threads = [jobs.runner.start(f"lane-{n}") for n in range(LANES + 1)]
    assert wait_until(lambda: jobs.done.count("well") >= 3, timeout=20)
    assert jobs.done.count("hanging") == 0
    jobs.let_go.set()
    assert wait_until(lambda: jobs.done.count("hanging") >= 6, timeout=20)
    fleet.runtime.stopping.set()
    for thread in threads:
        thread.join(10)


@pytest.fixture
def impatient(make_fleet: Callable[..., Fleet]) -> Fleet:
    """A call is slow after a second, and a cloud that is slow for a tenth of one counts as away."""
    return make_fleet(call_timeout=2.0, unreachable_seconds=0.1, worker_threads=4)


def test_a_lease_rests_while_its_cloud_is_crowded_and_goes_on_when_it_is_not(
    make_fleet: Callable[..., Fleet],
) -> None:
    fleet = make_fleet(worker_threads=4)
    lease_id = fleet.create(wait_seconds=60)
    with calls(fleet.runtime.bulkheads, 2, ACCOUNT):
        assert fleet.step() == 1
        assert fleet.attempts(lease_id) == []
    fleet.drive_to(lease_id, "active")


def test_what_was_planned_and_not_sent_leaves_a_cloud_that_does_not_answer(impatient: Fleet) -> None:
    """The thread would be one too many there: the next candidate is tried, and nothing was sent to the first."""
    impatient.sim.fault("RunInstances", "throttle")
    lease_id = impatient.create(wait_seconds=60)
    impatient.drive(lambda: any(one.retry_at is not None for one in impatient.attempts(lease_id)))
    impatient.runtime.database.run(update(attempt).values(state="planned", retry_at=None, unknown_since=None))
    impatient.make_due(lease_id)
    sent = impatient.runs()
    with calls(impatient.runtime.bulkheads, 2, ACCOUNT):
        impatient.let_pass(1.2)
        impatient.step()
    (first,) = impatient.attempts(lease_id)
    assert (first.state, first.error["code"]) == ("refused", "NoAnswer")
    assert impatient.runs() == sent
    impatient.drive_to(lease_id, "active")
    assert len(impatient.vms()) == 1


def test_a_region_without_an_answer_comes_last_with_the_reason_until_it_answers_again(fleet: Fleet) -> None:
    listing = JobSpec(name="inventory", run=take_inventory, interval=lambda _: 0.0)
    ensure_jobs(fleet.runtime, {"inventory": listing})
    runner = PeriodicRunner(fleet.runtime, {"inventory": listing})
    fleet.sim.fault("DescribeInstances", "error", code="InternalError", times=None)
    assert runner.run_one()
    assert set_aside(fleet) == set()
    since = text("last_error || jsonb_build_object('since', now() - interval '1 minute')")
    fleet.runtime.database.run(update(account_region).values(last_error=since))
    hurry(fleet, runner)
    assert set_aside(fleet) == {("provider_error", "InternalError")}
    fleet.sim.clear_faults()
    hurry(fleet, runner)
    assert set_aside(fleet) == set()


def hurry(fleet: Fleet, runner: PeriodicRunner) -> None:
    fleet.runtime.database.run(update(periodic_job).values(next_due=text("now()")))
    assert runner.run_one()


def set_aside(fleet: Fleet) -> set[tuple[str, str | None]]:
    """Why offerings are set aside, in words and in the provider's code."""
    fleet.runtime.catalogue.forget()
    cooling = [one.cool_off for one in fleet.runtime.catalogue.offerings() if one.cool_off is not None]
    return {(one.reason, one.code) for one in cooling}


def test_a_refusal_while_an_offering_is_set_aside_makes_that_no_longer_twice(fleet: Fleet) -> None:
    key = fleet.runtime.catalogue.offerings()[0].key
    for _ in range(5):
        fleet.runtime.database.run(
            offering_stats.cool_off(
                key, CoolOffPause(seconds=10, longest=1000, reason=CoolOffReason.NO_CAPACITY), code=None
            )
        )
    fleet.runtime.catalogue.forget()
    assert [one.cool_off.count for one in fleet.runtime.catalogue.offerings() if one.cool_off is not None] == [1]
