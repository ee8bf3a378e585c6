"""Which leases a reservation takes: never more than its slots, never outside its window, never other tenants' leases."""

from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from app.domain.explanations.placement_failure import why_exhausted
from app.domain.lease_offerings import for_term
from app.domain.leases import LeaseState, VmState
from app.domain.lifecycle import BeginRelease, Rest, Terminate, decide
from app.domain.offerings import Market, MarketPreference, Offering
from app.domain.placement import Exclusion, Requirements, rank
from app.domain.reasons import ReasonCode
from app.domain.reservations import ENDING_MARGIN, Reservation, Term
from app.domain.vm_parts import PartsRequest
from tests.domain.samples import NOW, TIMING, ago, ahead, attempt, lease, offering

MINE, OTHER = "tenant_a", "tenant_b"
DAY = 86_400


def reserved(**changes: Any) -> Offering:
    facts: dict[str, Any] = {"name": "block", "kind": "capacity_block", "slots": 1, "free": 1, **changes}
    return with_reservation(Reservation(**facts))


def with_reservation(reservation: Reservation) -> Offering:
    made = offering(market=Market.RESERVED, price="0", reservation=reservation)
    return replace(made, key=replace(made.key, reservation=reservation.name))


def term(seconds: float = 3600, waits: float = 0, tenant: str = MINE) -> Term:
    about = {"expires_at": ahead(seconds), "wait_until": ahead(waits), "waits": timedelta(seconds=waits)}
    return Term(tenant_id=tenant, parts=PartsRequest(disk_gib=0), **about)


def candidates(offerings: list[Offering], asked: Term, *, launching: bool = True, now: datetime = NOW) -> list[str]:
    ranking = rank(Requirements(market=MarketPreference.RESERVED), offerings, now)
    found = for_term(ranking, asked, now, launching=launching).candidates
    return [one.key.reservation or "" for one in found]


times = st.one_of(st.none(), st.integers(-2 * DAY, 2 * DAY).map(ahead))
reservations = st.builds(
    Reservation,
    name=st.sampled_from(["a", "b", "c"]),
    kind=st.just("capacity_block"),
    tenants=st.sampled_from([frozenset(), frozenset({MINE}), frozenset({OTHER})]),
    slots=st.integers(0, 3),
    free=st.integers(0, 3),
    starts_at=times,
    ends_at=times,
    shortest_wait=st.sampled_from([None, 90]),
    longest_run=st.sampled_from([None, DAY]),
)
terms = st.builds(term, st.integers(60, 2 * DAY), st.sampled_from([0, 60, 90, DAY]), st.sampled_from([MINE, OTHER]))


@settings(max_examples=50)
@given(st.lists(reservations, max_size=3, unique_by=lambda one: one.name), st.lists(terms, max_size=12))
def test_placement_gives_no_more_than_the_free_slots_and_no_term_beyond_the_window(
    bought: list[Reservation], asked: list[Term]
) -> None:
    left = {one.name: one for one in bought}
    for wish in asked:
        found = candidates([with_reservation(one) for one in left.values()], wish)
        if not found:
            continue
        chosen = left[found[0]]
        assert chosen.free is not None
        assert chosen.free > 0
        assert chosen.admits(wish.tenant_id)
        assert chosen.starts_at is None or chosen.starts_at <= NOW
        assert chosen.ends_at is None or wish.expires_at <= chosen.ends_at - ENDING_MARGIN
        assert chosen.longest_run is None or wish.expires_at < ahead(chosen.longest_run)
        left[chosen.name] = replace(chosen, free=chosen.free - 1)


@pytest.mark.parametrize(
    ("reservation", "asked", "said"),
    [
        ({"free": 0}, term(), "no slot of reservation block is free"),
        ({"starts_at": ahead(60)}, term(waits=120), "starts at 2026-06-01T12:01:00Z"),
        ({"starts_at": ahead(60)}, term(waits=30), "request a wait_seconds of at least 61"),
        ({"ends_at": ahead(3600)}, term(3600), "end by 2026-06-01T12:55:00Z: request a ttl_seconds of at most 3300"),
        ({"problem": "EC2 reports its state as cancelled"}, term(), "EC2 reports its state as cancelled"),
        ({"free": None, "slots": None, "shortest_wait": 90}, term(waits=60), "request a wait_seconds of at least 90"),
    ],
    ids=str,
)
def test_a_lease_that_does_not_fit_is_told_what_to_request(reservation: dict[str, Any], asked: Term, said: str) -> None:
    ranking = rank(Requirements(market=MarketPreference.RESERVED), [reserved(**reservation)], NOW)
    (excluded,) = for_term(ranking, asked, NOW, launching=True).excluded
    assert excluded.code is Exclusion.RESERVATION
    assert said in excluded.detail
    reason = why_exhausted(for_term(ranking, asked, NOW, launching=True), [], 0)
    assert (reason.code, reason.message) == (ReasonCode.CAPACITY_EXHAUSTED, excluded.detail)


def test_what_may_change_while_a_lease_waits_does_not_prevent_its_admission() -> None:
    for reservation in (reserved(free=0), reserved(starts_at=ahead(60))):
        assert candidates([reservation], term(waits=120), launching=False) == ["block"]
    assert candidates([reserved(ends_at=ahead(3600))], term(3600), launching=False) == []


def test_other_tenants_do_not_learn_of_a_reservation() -> None:
    mine = reserved(tenants=frozenset({MINE}))
    for wish in (Requirements(), Requirements(gpu_model="H100")):
        told = for_term(rank(wish, [mine], NOW), term(tenant=OTHER), NOW, launching=True)
        assert (told.candidates, told.excluded) == ((), ())
    assert candidates([mine], term()) == ["block"]


def test_which_requests_use_a_reservation() -> None:
    on_demand, block = offering(), reserved()
    queue = with_reservation(Reservation(name="queue", kind="flex_start", shortest_wait=90))

    def order(market: MarketPreference) -> list[str]:
        found = rank(Requirements(market=market), [on_demand, block, queue], NOW).candidates
        return [one.key.reservation or "on_demand" for one in found]

    assert order(MarketPreference.ANY) == ["block", "on_demand"]
    assert order(MarketPreference.RESERVED) == ["block", "queue"]
    assert order(MarketPreference.RESERVED_FIRST) == ["block", "queue", "on_demand"]
    for market in (MarketPreference.ON_DEMAND, MarketPreference.SPOT_FIRST):
        assert order(market) == ["on_demand"]


def test_a_lease_ends_with_its_reservation() -> None:
    inside = lease(
        LeaseState.ACTIVE, attempt=attempt(vm_state=VmState.RUNNING, ready=True, reserved_until=ahead(60)), ready_at=NOW
    )
    assert decide(inside, NOW, TIMING) == Rest(ahead(60))
    step = decide(inside, ahead(60), TIMING)
    assert isinstance(step, BeginRelease)
    assert step.reason.code is ReasonCode.RESERVATION_ENDED


def test_the_wait_in_the_providers_queue_is_no_launch_time_out() -> None:
    def provisioning(state: VmState, since: datetime) -> Any:
        known = attempt(
            vm_state=state,
            vm_state_at=since,
            reservation="queue",
            known_at=ago(7000),
            watched_at=NOW,
            market="reserved",
        )
        return decide(lease(LeaseState.PROVISIONING, attempt=known), NOW, TIMING)

    assert isinstance(provisioning(VmState.QUEUED, ago(7000)), Rest)
    assert isinstance(provisioning(VmState.PENDING, ago(10)), Rest)
    assert isinstance(provisioning(VmState.PENDING, ago(TIMING.launch_timeout)), Terminate)
