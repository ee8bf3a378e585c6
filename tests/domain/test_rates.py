"""Rates: what a VM costs an hour, by its parts."""

from dataclasses import replace
from decimal import Decimal

import pytest

from app.domain.rates import Rate, rate_at
from tests.domain.samples import offering

PRICED = replace(
    offering(price="20"), disk_price_per_gib_month=Decimal("0.08"), address_price_per_hour=Decimal("0.005")
)


def test_a_rate_has_compute_disk_and_address() -> None:
    rate = rate_at(PRICED, disk_gib=730, public_ip=True)
    assert rate == Rate(compute=Decimal(20), disk=Decimal("0.08"), address=Decimal("0.005"))
    assert rate.total == Decimal("20.085")


def test_a_vm_without_a_public_address_pays_for_none() -> None:
    assert rate_at(PRICED, disk_gib=0, public_ip=False).total == Decimal(20)


def test_parts_without_a_known_price_count_as_zero() -> None:
    rate = rate_at(offering(price="20"), disk_gib=100, public_ip=True)
    assert (rate.disk, rate.address, rate.total) == (None, None, Decimal(20))


def test_an_offering_without_a_price_has_no_rate() -> None:
    with pytest.raises(ValueError, match="without a price"):
        rate_at(replace(PRICED, price_per_hour=None), disk_gib=1, public_ip=True)
