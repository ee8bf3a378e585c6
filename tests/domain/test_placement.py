"""Which offerings fit, in which order, and why the others do not."""

from dataclasses import replace
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.domain.gpus.benchmarks import MeasuredPerformance
from app.domain.lease_requests import GpuRequest, LeaseRequest
from app.domain.offerings import GpuVendor, Interconnect, Market, MarketPreference, Obstacle, Offering
from app.domain.placement import Exclusion, Requirements, exclusion, much_dearer, rank, tried_offerings
from tests.domain.samples import NOW, ago, ahead, cool_off, offering

SPOT, ON_DEMAND = Market.SPOT, Market.ON_DEMAND


def order(wish: Requirements, *offerings: Offering) -> list[str]:
    return [one.key.instance_type for one in rank(wish, offerings, NOW).candidates]


@pytest.mark.parametrize(
    ("wish", "code"),
    [
        ({"gpu_model": "H100"}, Exclusion.GPU_MODEL),
        ({"gpu_count": 2}, Exclusion.GPU_COUNT),
        ({"gpu_memory_gib": 25}, Exclusion.GPU_MEMORY),
        ({"gpu_vendor": GpuVendor.AMD}, Exclusion.GPU_VENDOR),
        ({"interconnect": Interconnect.NVLINK}, Exclusion.INTERCONNECT),
        ({"min_vcpus": 5}, Exclusion.VCPUS),
        ({"min_memory_gib": 17}, Exclusion.MEMORY),
        ({"min_local_disk_gib": 233}, Exclusion.LOCAL_DISK),
        ({"instance_types": ("p5.48xlarge",)}, Exclusion.INSTANCE_TYPE),
        ({"market": MarketPreference.SPOT}, Exclusion.MARKET),
        ({"providers": ("gcp", "azure")}, Exclusion.PROVIDER),
        ({"providers": ()}, Exclusion.PROVIDER),
        ({"regions": ("eu-west-1",)}, Exclusion.REGION),
        ({"max_price_per_hour": Decimal("1.005")}, Exclusion.PRICE_CAP),
    ],
    ids=str,
)
def test_what_does_not_fit_is_excluded_with_its_reason(wish: dict[str, Any], code: Exclusion) -> None:
    found = exclusion(Requirements(**wish), offering())
    assert found is not None
    assert found.code is code
    assert found.detail


@pytest.mark.parametrize(
    ("change", "code"),
    [
        ({"price": None}, Exclusion.NO_PRICE),
        ({"cordoned": True}, Exclusion.CORDONED),
        ({"account_problem": "keys expired"}, Exclusion.ACCOUNT),
        ({"parts": 8}, Exclusion.GPU_FRACTION),
        ({"obstacle": Obstacle.RESERVED_ONLY, "price": None}, Exclusion.RESERVED_ONLY),
        ({"obstacle": Obstacle.NO_DRIVER_IMAGE, "price": None}, Exclusion.NO_DRIVER_IMAGE),
    ],
    ids=str,
)
def test_what_cannot_be_used_is_excluded_whoever_asks(change: dict[str, Any], code: Exclusion) -> None:
    found = exclusion(Requirements(), offering(**change))
    assert found is not None
    assert found.code is code


@pytest.mark.parametrize(
    "wish",
    [
        {},
        {"gpu_model": "A10G", "gpu_count": 1, "gpu_memory_gib": 24},
        {"gpu_vendor": GpuVendor.NVIDIA, "interconnect": Interconnect.PCIE},
        {"min_vcpus": 4, "min_memory_gib": 16, "min_local_disk_gib": 232},
        {"instance_types": ("g4dn.xlarge", "g5.xlarge")},
        {"market": MarketPreference.ON_DEMAND},
        {"market": MarketPreference.SPOT_FIRST},
        {"providers": ("aws",), "regions": ("us-east-1",)},
        {"max_price_per_hour": Decimal("1.006")},
    ],
    ids=str,
)
def test_what_fits_exactly_is_a_candidate(wish: dict[str, Any]) -> None:
    assert exclusion(Requirements(**wish), offering()) is None


def test_a_minimum_admits_more_gpus_and_more_memory_and_an_exact_number_does_not() -> None:
    eight = offering(count=8, memory_gib=80)
    assert exclusion(Requirements(min_gpu_count=2, gpu_memory_gib=40), eight) is None
    assert exclusion(Requirements(gpu_count=8), eight) is None
    for wish in (Requirements(gpu_count=1), Requirements(gpu_count=16), Requirements(min_gpu_count=16)):
        excluded = exclusion(wish, eight)
        assert excluded is not None
        assert excluded.code is Exclusion.GPU_COUNT


def test_nvswitch_serves_a_request_for_nvlink_but_not_the_other_way_round() -> None:
    nvlink, nvswitch = offering(interconnect=Interconnect.NVLINK), offering(interconnect=Interconnect.NVSWITCH)
    assert exclusion(Requirements(interconnect=Interconnect.NVLINK), nvswitch) is None
    assert exclusion(Requirements(interconnect=Interconnect.NVSWITCH), nvlink) is not None


def test_a_part_of_a_gpu_is_used_only_when_its_type_is_named() -> None:
    assert exclusion(Requirements(instance_types=("g6f.large",)), offering("g6f.large", parts=8)) is None


def test_an_image_asked_for_must_be_one_of_the_accounts() -> None:
    wish = Requirements(image="pytorch")
    assert exclusion(wish, offering(images=frozenset({"pytorch", "jax"}))) is None
    excluded = exclusion(wish, offering(images=frozenset({"jax"})))
    assert excluded is not None
    assert (excluded.code, excluded.detail) == (Exclusion.IMAGE, "account main has no image named pytorch")


def test_the_cheapest_is_tried_first() -> None:
    assert order(Requirements(), offering("b", price="2"), offering("a", price="10"), offering("c", price="1.5")) == [
        "c",
        "b",
        "a",
    ]


def test_spot_first_tries_every_spot_offering_before_any_other() -> None:
    dear_spot, cheap = offering("spot", market=SPOT, price="9"), offering("cheap", price="1")
    assert order(Requirements(market=MarketPreference.SPOT_FIRST), cheap, dear_spot) == ["spot", "cheap"]
    assert order(Requirements(), cheap, dear_spot) == ["cheap", "spot"]


@pytest.mark.parametrize(("wish", "left"), [(MarketPreference.SPOT, ["s"]), (MarketPreference.ON_DEMAND, ["d"])])
def test_a_market_asked_for_is_the_only_one(wish: MarketPreference, left: list[str]) -> None:
    assert order(Requirements(market=wish), offering("s", market=SPOT), offering("d")) == left


def test_an_offering_in_cool_off_goes_last_even_before_spot_first() -> None:
    cooling = offering("spot", market=SPOT, price="0.1", cool_off=cool_off(ahead(1)))
    assert order(Requirements(market=MarketPreference.SPOT_FIRST), cooling, offering("dear", price="99")) == [
        "dear",
        "spot",
    ]


def test_a_cool_off_that_is_over_counts_no_more() -> None:
    over = offering("over", price="1", cool_off=cool_off(NOW))
    assert order(Requirements(), offering("dear", price="2"), over) == ["over", "dear"]
    assert not over.cooling(NOW)
    assert over.cooling(ago(1))


def test_at_one_price_the_one_that_refused_less_often_is_first() -> None:
    assert order(
        Requirements(),
        offering("never", launches=0, refusals=4),
        offering("often", launches=1, refusals=1),
        offering("fine", launches=9, refusals=1),
        offering("new"),
    ) == ["new", "fine", "often", "never"]


def test_at_one_price_and_success_the_one_that_is_ready_sooner_is_first() -> None:
    assert order(
        Requirements(),
        offering("a slow", launches=9, refusals=1, ready_seconds=300.0),
        offering("quick", launches=9, refusals=1, ready_seconds=40.0),
        offering("refusing", launches=5, refusals=5, ready_seconds=10.0),
    ) == ["quick", "a slow", "refusing"]


def test_small_differences_decide_nothing() -> None:
    assert order(
        Requirements(),
        offering("a", launches=97, refusals=3, ready_seconds=41.0),
        offering("b", launches=98, refusals=2, ready_seconds=40.0),
    ) == ["a", "b"]


CATALOGUE = [
    offering(name, market=market, zone=zone, price=price, cool_off=cool_off(until))
    for name in ("a", "b")
    for market in Market
    for zone in ("z1", "z2")
    for price in ("1", "2")[: 1 if name == "a" else 2]
    for until in (ago(1), ahead(1))[: 1 if zone == "z1" else 2]
]


def test_benchmarks_are_no_part_of_what_placement_orders() -> None:
    """Reports of one tenant's VMs must not move the leases of others."""
    plain = [offering(zone=f"us-east-1{n}", price=str(1 + n / 50)) for n in range(5)]
    measured = [
        replace(one, benchmark=MeasuredPerformance(bf16_tflops_p50=10.0**n, n=5, driver_version="570"))
        for n, one in enumerate(plain)
    ]
    wish = Requirements.of(LeaseRequest(ttl_seconds=60))
    orders = [[one.key for one in rank(wish, some, NOW).candidates] for some in (plain, measured)]
    assert len(orders[0]) == 5
    assert orders[0] == orders[1]


@given(st.permutations(CATALOGUE), st.sampled_from(MarketPreference))
def test_the_order_of_the_catalogue_does_not_matter(mixed: list[Offering], market: MarketPreference) -> None:
    def told(offerings: list[Offering]) -> list[tuple[Any, ...]]:
        ranking = rank(Requirements(market=market), offerings, NOW)
        return [(o.key, o.price_per_hour) for o in ranking.candidates]

    keys = {(o.key, o.price_per_hour): o for o in CATALOGUE}
    unique = [o for o in mixed if keys[o.key, o.price_per_hour] is o]
    assert told(unique) == told([o for o in CATALOGUE if keys[o.key, o.price_per_hour] is o])


@given(st.permutations(CATALOGUE), st.sampled_from(MarketPreference))
def test_every_offering_is_either_a_candidate_or_excluded(mixed: list[Offering], market: MarketPreference) -> None:
    ranking = rank(Requirements(market=market), mixed, NOW)
    assert len(ranking.candidates) + len(ranking.excluded) == len(mixed)
    assert [e.offering for e in ranking.excluded] == [o for o in mixed if exclusion(Requirements(market=market), o)]


def test_placement_looks_at_these_parts_of_a_request() -> None:
    request = LeaseRequest(
        ttl_seconds=60,
        gpu=GpuRequest(
            model="A100", count=8, memory_gib=40, interconnect=Interconnect.NVSWITCH, vendor=GpuVendor.NVIDIA
        ),
        min_vcpus=90,
        min_memory_gib=900,
        min_local_disk_gib=1000,
        market=MarketPreference.SPOT_FIRST,
        providers=("aws", "gcp"),
        max_price_per_hour=Decimal("40.00"),
    )
    assert Requirements.of(request) == Requirements(
        gpu_model="A100",
        gpu_count=8,
        gpu_memory_gib=40,
        gpu_vendor=GpuVendor.NVIDIA,
        interconnect=Interconnect.NVSWITCH,
        min_vcpus=90,
        min_memory_gib=900,
        min_local_disk_gib=1000,
        market=MarketPreference.SPOT_FIRST,
        providers=("aws", "gcp"),
        max_price_per_hour=Decimal("40.00"),
    )
    by_type = LeaseRequest(ttl_seconds=60, instance_types=("g5.xlarge",))
    assert Requirements.of(by_type) == Requirements(instance_types=("g5.xlarge",), market=MarketPreference.ON_DEMAND)
    least = Requirements.of(LeaseRequest(ttl_seconds=60, gpu=GpuRequest(model="T4", min_count=2)))
    assert (least.gpu_count, least.min_gpu_count) == (None, 2)


@pytest.mark.parametrize(
    ("others", "dearer"),
    [([], False), (["2"], False), (["1.99"], True), (["5", "1.99"], True), (["1.99", "5"], True), (["2", "5"], False)],
    ids=str,
)
def test_half_as_much_again_is_still_worth_its_price(others: list[str], *, dearer: bool) -> None:
    assert much_dearer(offering(price="3"), [offering(price=price) for price in others]) is dearer


def test_an_offering_in_a_full_network_is_tried_once_more_and_no_oftener() -> None:
    one, two = offering(zone="us-east-1a").key, offering(zone="us-east-1b").key
    full, other = {"class": "NetworkFull"}, {"class": "InsufficientCapacity"}
    assert tried_offerings([(one, full), (two, other)]) == {two: other}
    assert tried_offerings([(one, full), (one, full)]) == {one: full}
    assert tried_offerings([(one, full), (one, other)]) == {one: other}
    assert tried_offerings([(one, None)]) == {one: None}


def test_an_open_zone_goes_before_its_region_as_a_whole() -> None:
    """A size whose zones were all closed is offered in the region as a whole, until a zone opens."""
    everywhere, zoned = offering(zone="us-east-1"), offering(zone="us-east-1a")
    assert rank(Requirements(), [everywhere, zoned], NOW).candidates == (zoned, everywhere)
