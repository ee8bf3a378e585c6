"""Rates: what a VM costs an hour, by its parts."""

from dataclasses import replace
from datetime import timedelta
from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.domain.billing import cost, term_cost
from app.domain.offerings import Driver
from app.domain.rates import Rate, disk_gib_at, least_rate, rate_at
from app.domain.vm_parts import PartsFacts, PartsRequest
from tests.domain.samples import offering

PRICED = replace(
    offering(price="20"), disk_price_per_gib_month=Decimal("0.08"), address_price_per_hour=Decimal("0.005")
)
SIZES = (32, 64, 128)


def test_a_rate_has_compute_disk_and_address() -> None:
    rate = rate_at(PRICED, PartsRequest(disk_gib=730))
    assert rate == Rate(compute=Decimal(20), disk=Decimal("0.08"), address=Decimal("0.005"))
    assert rate.total == Decimal("20.085")


def test_a_vm_without_a_public_address_pays_for_none() -> None:
    assert rate_at(PRICED, PartsRequest(disk_gib=0, public_ip=False)).total == Decimal(20)
    private = replace(PRICED, parts=PartsFacts(public_addresses=False))
    assert rate_at(private, PartsRequest(disk_gib=0)).address == 0


def test_parts_without_a_known_price_count_as_zero() -> None:
    rate = rate_at(offering(price="20"), PartsRequest(disk_gib=100))
    assert (rate.disk, rate.address, rate.total) == (None, None, Decimal(20))


def test_an_offering_without_a_price_has_no_rate() -> None:
    with pytest.raises(ValueError, match="without a price"):
        rate_at(replace(PRICED, price_per_hour=None), PartsRequest(disk_gib=1))


@pytest.mark.parametrize(
    ("wish", "billed"),
    [
        (PartsRequest(disk_gib=30), 75),
        (PartsRequest(disk_gib=80), 80),
        (PartsRequest(disk_gib=30, image="large"), 200),
        (PartsRequest(disk_gib=30, image="unknown"), 30),
    ],
)
def test_the_boot_disk_is_as_large_as_the_image(wish: PartsRequest, billed: int) -> None:
    images = {"driver:nvidia": 75, "driver:amd_rocm": 500, "large": 200}
    assert disk_gib_at(replace(PRICED, parts=PartsFacts(image_gib=images)), wish) == billed


def test_each_disk_is_billed_by_its_next_size() -> None:
    parts = PartsFacts(data_disk_gib=60, disk_sizes_gib=SIZES)
    assert disk_gib_at(replace(PRICED, parts=parts), PartsRequest(disk_gib=33)) == 64 + 64
    assert disk_gib_at(replace(PRICED, parts=parts), PartsRequest(disk_gib=129)) == 129 + 64, "no size is as large"


def test_the_least_rate_is_that_of_all_parts() -> None:
    large = replace(PRICED, price_per_hour=Decimal("19.9"), parts=PartsFacts(data_disk_gib=7300))
    assert least_rate([large, PRICED], PartsRequest(disk_gib=0, public_ip=False)) == 20


@given(
    st.builds(
        PartsFacts,
        data_disk_gib=st.integers(0, 500),
        disk_sizes_gib=st.sampled_from([(), SIZES]),
        public_addresses=st.booleans(),
        image_gib=st.dictionaries(st.sampled_from(["driver:nvidia", "large"]), st.integers(0, 300)),
    ),
    st.builds(
        PartsRequest, disk_gib=st.integers(30, 500), public_ip=st.booleans(), image=st.sampled_from([None, "large"])
    ),
)
def test_what_a_worker_stores_of_an_account_gives_the_rate_that_it_bills(facts: PartsFacts, wish: PartsRequest) -> None:
    read = PartsFacts.from_json(facts.settings_json(), dict(facts.image_gib))
    assert rate_at(replace(PRICED, parts=read), wish) == rate_at(replace(PRICED, parts=facts), wish)
    assert read.billed_disk_gib(wish, Driver.NVIDIA) >= wish.disk_gib + facts.data_disk_gib


@given(st.decimals("0.000001", 1000, places=6), st.integers(60, 2_592_000))
def test_the_cost_of_a_term_pays_for_every_second_of_it(per_hour: Decimal, seconds: int) -> None:
    total = term_cost(Rate(compute=per_hour), seconds)
    exact = cost(per_hour, timedelta(seconds=seconds))
    assert exact <= total < exact + Decimal("0.000001")
