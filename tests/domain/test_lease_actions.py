"""Which actions a lease allows."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from app.domain.lease_actions import Extension, LaterExpiry, Refusal, extension_refusal, reboot_refusal, release_refusal
from app.domain.leases import Desired, LeaseState

FINE: dict[str, Any] = {
    "desired": Desired.RUN,
    "expired": False,
    "tenant_active": True,
    "extendable": True,
    "lengthens": True,
    "exceeds_terms": False,
}


@pytest.mark.parametrize(
    ("changes", "refusal"),
    [
        ({}, None),
        ({"desired": Desired.END}, Refusal.LEASE_ENDING),
        ({"expired": True}, Refusal.LEASE_ENDING),
        ({"tenant_active": False}, Refusal.TENANT_SUSPENDED),
        ({"extendable": False}, Refusal.NOT_EXTENDABLE),
        ({"exceeds_terms": True}, Refusal.TERM_EXCEEDED),
        ({"extendable": False, "exceeds_terms": True}, Refusal.NOT_EXTENDABLE),
        ({"lengthens": False, "extendable": False, "exceeds_terms": True}, Refusal.NOT_LATER),
    ],
    ids=str,
)
def test_an_extension_is_refused_for_the_first_reason(changes: dict[str, Any], refusal: Refusal | None) -> None:
    assert extension_refusal(Extension(**FINE | changes)) is refusal


@pytest.mark.parametrize("state", LeaseState)
def test_only_the_vm_of_an_active_lease_is_rebooted(state: LeaseState) -> None:
    allowed = None if state is LeaseState.ACTIVE else Refusal.LEASE_NOT_ACTIVE
    assert reboot_refusal(Desired.RUN, state) is allowed
    assert reboot_refusal(Desired.END, state) is Refusal.LEASE_ENDING


def test_a_lease_is_released_once() -> None:
    assert release_refusal(Desired.RUN) is None
    assert release_refusal(Desired.END) is Refusal.LEASE_ENDING


def test_an_extension_counts_from_the_present_expiry_or_names_a_time() -> None:
    expires_at, to = datetime(2026, 1, 1, tzinfo=UTC), datetime(2026, 1, 3, tzinfo=UTC)
    assert LaterExpiry(by=timedelta(hours=1)).after(expires_at) == datetime(2026, 1, 1, 1, tzinfo=UTC)
    assert LaterExpiry(to=to).after(expires_at) == to
