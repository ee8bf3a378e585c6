"""Three clouds in trouble; `python -m bench.three_clouds` runs the same at length."""

import pytest

from bench.three_clouds import Installation, mixed
from tests.e2e.cloud import Cloud
from tests.e2e.people import Operator
from tests.e2e.stack import Stack


@pytest.fixture
def installation(stack: Stack, operator: Operator, cloud: Cloud) -> Installation:
    return Installation(operator, cloud, stack.credentials.database_url)


def test_every_lease_ends_active_or_failed_for_a_true_reason_and_nothing_is_left(installation: Installation) -> None:
    found = mixed(installation, leases=30, bad_seconds=5)
    assert set(found["states"]) <= {"active", "failed"}
    assert found["states"]["active"] >= 10
    assert set(found["active_at"]) == {"aws", "gcp", "azure"}
