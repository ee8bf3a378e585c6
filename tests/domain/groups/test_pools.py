"""The election of a group's pool."""

from dataclasses import replace
from datetime import timedelta
from typing import Any

from app.domain.groups.groups import (
    GroupFacts,
    GroupInterconnect,
    GroupPlacement,
    GroupState,
    OnMemberLoss,
    Pool,
    PoolTry,
)
from app.domain.groups.pools import LOOK_AGAIN, choose_pool, pools
from app.domain.ids import GroupId, TenantId
from app.domain.offerings import Market, Offering
from tests.domain.samples import NOW, cool_off, offering

PAUSE = timedelta(seconds=60)
ZONES = ("us-east-1a", "us-east-1b", "us-east-1c")
CHEAP, OTHER, LAST = (offering(zone=zone, price=price) for zone, price in zip(ZONES, ("1", "2", "3"), strict=True))
THREE = [CHEAP, OTHER, LAST]


def group(**changes: Any) -> GroupFacts:
    """A group of two in the queue."""
    facts: dict[str, Any] = {
        "id": GroupId("group_x"),
        "tenant_id": TenantId("tenant_x"),
        "name": "g",
        "size": 2,
        "min_size": 2,
        "placement": GroupPlacement.SAME_ZONE,
        "interconnect": GroupInterconnect.NONE,
        "form_seconds": 900,
        "on_member_loss": OnMemberLoss.END,
        "state": GroupState.QUEUED,
        "ends": False,
        "reason": None,
        "pool": None,
        "pools_tried": (),
        "pool_started_at": None,
        "wait_until": NOW,
        "formed_at": None,
    }
    return GroupFacts(**{**facts, **changes})


def pool(one: Offering) -> Pool:
    return Pool.of(one, GroupPlacement.SAME_ZONE)


def tried(*offerings: Offering, at: timedelta = timedelta(0)) -> tuple[PoolTry, ...]:
    return tuple(PoolTry(pool=pool(one), failed_at=NOW - at) for one in offerings)


def patient(**changes: Any) -> GroupFacts:
    return group(wait_until=NOW + timedelta(hours=1), **changes)


def cooling(one: Offering, seconds: float) -> Offering:
    return replace(one, cool_off=cool_off(NOW + timedelta(seconds=seconds)))


def test_the_best_candidates_pool_comes_first() -> None:
    assert choose_pool(group(), THREE, NOW, PAUSE) == pool(CHEAP)


def test_a_pool_that_failed_comes_last_and_again_after_a_pause() -> None:
    assert choose_pool(patient(pools_tried=tried(CHEAP)), THREE, NOW, PAUSE) == pool(OTHER)
    every = tried(*THREE, at=timedelta(seconds=20))
    assert choose_pool(patient(pools_tried=every), THREE, NOW, PAUSE) == NOW + LOOK_AGAIN
    long_ago = tried(*THREE, at=PAUSE)
    assert choose_pool(patient(pools_tried=long_ago), THREE, NOW, PAUSE) == pool(CHEAP)
    assert choose_pool(patient(pools_tried=(*long_ago, *tried(CHEAP, at=PAUSE))), THREE, NOW, PAUSE) == pool(OTHER)


def test_after_its_wait_a_group_tries_what_it_has_not_tried_and_then_ends() -> None:
    assert choose_pool(group(pools_tried=tried(CHEAP)), THREE, NOW, PAUSE) == pool(OTHER)
    assert choose_pool(group(pools_tried=tried(*THREE, at=PAUSE)), THREE, NOW, PAUSE) is None
    assert choose_pool(group(), [], NOW, PAUSE) is None


def test_a_pool_in_cool_off_is_the_last_resort() -> None:
    cold = [cooling(CHEAP, 10), cooling(OTHER, 10)]
    assert choose_pool(group(), [*cold, LAST], NOW, PAUSE) == pool(LAST)
    assert choose_pool(patient(), cold, NOW, PAUSE) == NOW + timedelta(seconds=10)
    assert choose_pool(group(), cold, NOW, PAUSE) == pool(CHEAP)
    assert choose_pool(group(pools_tried=tried(LAST)), cold, NOW, PAUSE) is None


def test_placement_any_joins_the_zones_of_a_region() -> None:
    found = pools(group(placement=GroupPlacement.ANY), [*THREE, offering(region="eu-west-1", zone="eu-west-1a")])
    assert [(one.region, one.zone) for one in found] == [("us-east-1", None), ("eu-west-1", None)]
    [region, _] = found
    assert all(region.holds(one) for one in THREE)
    assert not region.holds(offering(market=Market.SPOT))
