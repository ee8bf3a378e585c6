"""Which change of a request would fit now, and why the other offerings do not."""

from dataclasses import replace
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.domain.explanations.near_misses import GROUP_TEXTS, Suggestion, difference, find_near_misses, suggest
from app.domain.explanations.relaxations import RELAXATIONS
from app.domain.lease_requests import GpuRequest, LeaseRequest
from app.domain.offerings import Market, MarketPreference, Offering
from app.domain.placement import Exclusion, Requirements, rank
from tests.domain.samples import NOW, ahead, cool_off, offering

A10G = GpuRequest(model="A10G")


def request(**changes: Any) -> LeaseRequest:
    facts: dict[str, Any] = {"ttl_seconds": 3600, "gpu": A10G}
    return LeaseRequest(**{**facts, **changes})


def is_free(o: Offering) -> bool:
    return not o.cooling(NOW)


def suggestions(wanted: LeaseRequest, *offerings: Offering) -> tuple[Suggestion, ...]:
    wish = Requirements.of(wanted)
    ranking = rank(wish, offerings, NOW)
    return suggest(wanted, find_near_misses(wish, ranking), ranking.candidates, is_free, NOW)


def test_every_exclusion_has_a_text_and_a_relaxation_or_none() -> None:
    assert GROUP_TEXTS.keys() == set(Exclusion), (
        "a new Exclusion needs GROUP_TEXTS in app/domain/explanations/near_misses.py"
    )
    assert RELAXATIONS.keys() == set(Exclusion), (
        "a new Exclusion needs RELAXATIONS in app/domain/explanations/relaxations.py"
    )


@pytest.mark.parametrize(
    ("wanted", "near", "code", "change"),
    [
        (
            {"gpu": GpuRequest(model="H100")},
            {},
            "gpu_model",
            {"gpu": {"model": "A10G", "count": 1, "min_count": None, "memory_gib": None}},
        ),
        (
            {"gpu": GpuRequest(model="A10G", count=8)},
            {"count": 4},
            "gpu_count",
            {"gpu": {"model": "A10G", "count": 4, "min_count": None, "memory_gib": None}},
        ),
        (
            {"gpu": GpuRequest(model="A10G", memory_gib=40)},
            {},
            "gpu_memory",
            {"gpu": {"model": "A10G", "count": 1, "min_count": None, "memory_gib": 24}},
        ),
        ({"gpu": None, "instance_types": ("a",)}, {}, "instance_type", {"instance_types": ["a", "g5.xlarge"]}),
        ({"market": MarketPreference.ON_DEMAND}, {"market": Market.SPOT}, "market", {"market": MarketPreference.ANY}),
        ({"providers": ("gcp",)}, {}, "provider", {"providers": ["gcp", "aws"]}),
        ({"regions": ("eu-west-1",)}, {}, "region", {"regions": ["eu-west-1", "us-east-1"]}),
        ({"image": "jax"}, {}, "image", {"image": None}),
        ({"max_price_per_hour": Decimal(1)}, {}, "price_cap", {"max_price_per_hour": "1.006"}),
    ],
    ids=str,
)
def test_one_requirement_is_relaxed(
    wanted: dict[str, Any], near: dict[str, Any], code: str, change: dict[str, Any]
) -> None:
    [suggestion] = suggestions(request(**wanted), offering(**near))
    assert (suggestion.code, suggestion.change) == (code, change)
    assert suggestion.message.endswith(".")


@pytest.mark.parametrize("change", [{"price": None}, {"cordoned": True}, {"account_problem": "x"}], ids=str)
def test_no_request_helps_against_what_operators_must_repair(change: dict[str, Any]) -> None:
    assert suggestions(request(), offering(**change)) == ()


def test_the_nearest_offering_needs_one_change_and_is_the_cheapest() -> None:
    wish = Requirements(gpu_model="A10G", max_price_per_hour=Decimal(1))
    far = offering("far", price="2", cordoned=True)
    offerings = [offering("dear", price="9"), offering("near", price="3"), far, offering("other", model="H100")]
    caps, models = find_near_misses(wish, rank(wish, offerings, NOW)).groups
    assert (caps.code, caps.count, caps.nearest.offering.key.instance_type) == (Exclusion.PRICE_CAP, 3, "near")
    assert (caps.message, models.message) == (
        "3 offerings cost more than max_price_per_hour",
        "1 offering has another GPU model",
    )


def test_as_many_gpus_as_possible_are_kept() -> None:
    wanted = request(gpu=GpuRequest(model="A10G", count=8))
    [suggestion] = suggestions(wanted, offering("one", price="1"), offering("four", count=4, price="5"))
    assert suggestion.offering.key.instance_type == "four"


def test_an_exact_number_of_gpus_is_relaxed_to_the_nearest_and_a_minimum_stays_one() -> None:
    one, four, eight = offering("one", price="1"), offering("four", count=4, price="5"), offering("eight", count=8)
    [exact] = suggestions(request(gpu=GpuRequest(model="A10G", count=2)), one, eight)
    assert (exact.offering, exact.change["gpu"]["count"], exact.change["gpu"]["min_count"]) == (one, 1, None)
    [least] = suggestions(request(gpu=GpuRequest(model="A10G", min_count=8)), one, four)
    assert (least.offering, least.change["gpu"]["count"], least.change["gpu"]["min_count"]) == (four, None, 4)


def test_another_type_is_no_weaker_and_of_the_same_model_if_possible() -> None:
    wanted = request(gpu=None, instance_types=("p4d",))
    full = offering("p4d", model="A100", count=8, cool_off=cool_off(ahead(9)))
    weak, other = offering("t4", model="T4", price="0.1"), offering("h100", model="H100", count=8, price="9")
    same = offering("p4de", model="A100", count=8, price="30")
    assert [one.offering for one in suggestions(wanted, full, weak, other, same)] == [same]
    assert [one.offering for one in suggestions(wanted, full, weak, other)] == [other]


MODELS, PLACES, MARKETS = ("A10G", "H100"), ("us-east-1", "eu-west-1"), tuple(Market)
OFFERINGS = st.builds(
    lambda n, model, region, market, count, price, cooling, off: offering(
        f"type{n}",
        model=model,
        region=region,
        market=market,
        count=count,
        price=price,
        cool_off=cool_off(ahead(9)) if cooling else None,
        cordoned=off,
    ),
    st.integers(0, 9),
    st.sampled_from(MODELS),
    st.sampled_from(PLACES),
    st.sampled_from(MARKETS),
    st.sampled_from([1, 4, 8]),
    st.sampled_from(["1", "2.5", "30", None]),
    st.booleans(),
    st.sampled_from([False, False, False, True]),
)
REQUESTS = st.builds(
    lambda model, count, is_minimum, regions, market, cap: request(
        gpu=GpuRequest(model=model, **{"min_count" if is_minimum else "count": count}),
        regions=regions,
        market=market,
        max_price_per_hour=cap,
    ),
    st.sampled_from(MODELS),
    st.sampled_from([1, 4, 8]),
    st.booleans(),
    st.sampled_from([None, PLACES[:1], PLACES[1:]]),
    st.sampled_from(MarketPreference),
    st.sampled_from([None, Decimal(2)]),
)
CATALOGUES = st.lists(OFFERINGS, max_size=12, unique_by=lambda o: o.key)


@given(REQUESTS, CATALOGUES)
def test_a_suggestion_gets_its_offering_from_the_whole_catalogue(wanted: LeaseRequest, all_: list[Offering]) -> None:
    for suggestion in suggestions(wanted, *all_):
        changed = LeaseRequest.from_json({**wanted.as_json(), **suggestion.change})
        free = [o for o in rank(Requirements.of(changed), all_, NOW).candidates if is_free(o)]
        assert free[0] is suggestion.offering
        assert suggestion.change == difference(wanted, changed)
        assert len(suggestion.change) == 1


@given(REQUESTS, CATALOGUES)
def test_every_single_relaxation_that_helps_is_suggested(wanted: LeaseRequest, all_: list[Offering]) -> None:
    """Against the plain way: relax one requirement entirely, and rank everything anew."""
    found = {suggestion.code for suggestion in suggestions(wanted, *all_)}
    already = set(rank(Requirements.of(wanted), all_, NOW).candidates)
    relaxed = {
        Exclusion.GPU_COUNT: replace(wanted, gpu=replace(wanted.gpu or A10G, count=None, min_count=1)),
        Exclusion.REGION: replace(wanted, regions=None),
        Exclusion.MARKET: replace(wanted, market=MarketPreference.ANY),
        Exclusion.PRICE_CAP: replace(wanted, max_price_per_hour=None),
    }
    for code, changed in relaxed.items():
        new = set(rank(Requirements.of(changed), all_, NOW).candidates) - already
        assert (code in found) == any(map(is_free, new)), code


@given(REQUESTS, CATALOGUES)
def test_an_offering_is_in_one_group_or_a_candidate(wanted: LeaseRequest, all_: list[Offering]) -> None:
    wish = Requirements.of(wanted)
    ranking = rank(wish, all_, NOW)
    near = find_near_misses(wish, ranking)
    assert sum(group.count for group in near.groups) + len(ranking.candidates) == len(all_)
    single = [o.key for offerings in near.single.values() for o in offerings]
    assert len(single) == len(set(single))
    assert {group.code for group in near.groups} == {excluded.code for excluded in ranking.excluded}
