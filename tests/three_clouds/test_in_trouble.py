"""Three clouds in trouble; `python -m bench.three_clouds` runs the same at length."""

import pytest

from bench.three_clouds import Installation, mixed, outage
from tests.e2e.cloud import Cloud
from tests.e2e.people import Operator
from tests.e2e.stack import Stack


@pytest.fixture
def installation(stack: Stack, operator: Operator, cloud: Cloud) -> Installation:
    return Installation(operator, cloud, stack.credentials.database_url)


def test_every_lease_ends_active_or_failed_for_a_true_reason_and_nothing_is_left(installation: Installation) -> None:
    found = mixed(installation, leases=60, bad_seconds=8)
    assert set(found["states"]) <= {"active", "failed"}
    assert found["states"]["active"] >= 20
    assert set(found["active_at"]) == {"aws", "gcp", "azure"}


def test_a_cloud_that_gives_no_answer_stops_nobody_elsewhere_and_loses_no_lease(installation: Installation) -> None:
    """Those elsewhere are active while it is away, those that want it after it is back; by how much it slows, the command tells."""
    found = outage(installation, down="gcp", mode="hang", seconds=6, leases=12, there=16)
    assert found["recovered_seconds"] < 120
