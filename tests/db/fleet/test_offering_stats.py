"""What offerings are remembered for: refusals and launches of late, and how long they are set aside."""

from datetime import timedelta
from typing import Any

from sqlalchemy import insert, select, text, update

from app.db.fleet import offering_stats
from app.db.schema.tables import account, offering
from app.domain.cool_off import CoolOffPause, CoolOffReason
from app.domain.offerings import Market, OfferingKey
from tests.db.store import Store, ago

PAUSE = CoolOffPause(seconds=10, longest=100, reason=CoolOffReason.NO_CAPACITY)
KEY = OfferingKey(
    account="main", region="us-east-1", zone="us-east-1a", instance_type="g5.xlarge", market=Market.ON_DEMAND
)


def make(store: Store) -> None:
    gpu = {"gpu_model": "A10G", "gpu_count": 1, "gpu_memory_gib": 24, "gpu_interconnect": "PCIe"}
    store.run(insert(account).values(name=KEY.account, provider="aws", config={}))
    place = {"account": KEY.account, "region": KEY.region, "zone": KEY.zone, "market": str(KEY.market)}
    kind = {"instance_type": KEY.instance_type, "provider": "aws", "vcpus": 4, "memory_gib": 16, **gpu}
    store.run(insert(offering).values(**place, **kind))


def refuse(store: Store) -> Any:
    store.run(offering_stats.cool_off(KEY, PAUSE, code=None))
    return known(store)


def known(store: Store) -> Any:
    seconds = (offering.c.cool_until - offering.c.refreshed_at).label("pause")
    return store.first(select(offering.c.launches, offering.c.refusals, offering.c.cool_count, seconds))


def over(store: Store) -> None:
    store.run(update(offering).values(cool_until=ago("1 second")))


def test_a_refusal_after_the_pause_makes_the_next_one_twice_as_long(store: Store) -> None:
    make(store)
    pauses = []
    for _ in range(6):
        pauses.append(round(refuse(store).pause.total_seconds(), -1))
        over(store)
    assert pauses == [10, 20, 40, 80, 100, 100]


def test_refusals_of_leases_that_asked_at_the_same_time_are_one(store: Store) -> None:
    make(store)
    last = [refuse(store) for _ in range(5)][-1]
    assert (last.cool_count, round(last.pause.total_seconds(), -1)) == (1, 10)
    assert last.refusals == 5


def test_old_tries_are_forgotten(store: Store) -> None:
    make(store)
    for _ in range(200):
        refuse(store)
    for _ in range(60):
        store.run(offering_stats.launched(KEY, sent_at=None))
    row = known(store)
    assert row.launches + row.refusals < 40
    assert row.launches > 0.8 * (row.launches + row.refusals)


def test_a_vm_that_was_requested_before_the_refusal_does_not_end_the_cool_off(store: Store) -> None:
    make(store)
    refuse(store)
    row = store.first(select((offering.c.refused_at - text("interval '1 second'")).label("before")))
    assert row is not None
    before = row.before
    store.run(offering_stats.launched(KEY, sent_at=before))
    assert known(store).cool_count == 1
    store.run(offering_stats.launched(KEY, sent_at=before + timedelta(seconds=2)))
    assert (known(store).cool_count, known(store).pause) == (0, None)
