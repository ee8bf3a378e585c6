"""A stack with accounts at all three simulated clouds and several processes of a kind; the tests beside (tests/e2e) need
one of each, which is lighter."""

from collections.abc import Iterator

import pytest

from tests.e2e.cloud import Cloud
from tests.e2e.people import Operator, Tenant
from tests.e2e.sharing import named_after, sharing
from tests.e2e.stack import Stack
from tests.e2e.truth import left_nothing

APIS, WORKERS = 2, 2

stack, cloud, operator = sharing("aws", "gcp", "azure", api=APIS, workers=WORKERS)


@pytest.fixture
def tenant(request: pytest.FixtureRequest, stack: Stack, operator: Operator, cloud: Cloud) -> Iterator[Tenant]:
    """A new tenant with 200 GPUs. After the test its leases are ended, and clouds and database must agree."""
    with operator.tenant(named_after(request), 200) as made:
        yield made
        left_nothing(made, operator, cloud, stack.credentials.database_url)
