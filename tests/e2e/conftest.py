"""One stack for all of these tests; each test has a tenant of its own and leaves nothing behind."""

from collections.abc import Iterator
from dataclasses import dataclass

import pytest

from app.domain.tags import INSTALLATION
from tests.e2e.cloud import Cloud
from tests.e2e.people import ONE_A10G, Operator, Tenant
from tests.e2e.sharing import named_after, sharing
from tests.e2e.stack import Stack
from tests.e2e.truth import left_nothing


@dataclass(frozen=True)
class Planted:
    """What was there from the beginning and needs time: a short lease, and VMs that no lease stands behind."""

    tenant: Tenant
    short_lease: str
    rowless_vm: str
    other_installations_vm: str
    strangers_vm: str


stack, cloud, operator = sharing("aws", inventories=2)


@pytest.fixture(scope="package")
def planted(operator: Operator, cloud: Cloud) -> Iterator[Planted]:
    """Made before the first test, looked at after the last: so the time they need costs no waiting."""
    with operator.tenant("in a hurry", 1) as tenant:
        yield Planted(
            tenant=tenant,
            short_lease=tenant.create({**ONE_A10G, "name": "short", "ttl_seconds": 60}),
            rowless_vm=cloud.plant({INSTALLATION: operator.installation_id()}),
            other_installations_vm=cloud.plant({INSTALLATION: "gpl-of-somebody-else"}),
            strangers_vm=cloud.plant({"Name": "web server"}),
        )


@pytest.fixture
def tenant(
    request: pytest.FixtureRequest, stack: Stack, planted: Planted, operator: Operator, cloud: Cloud
) -> Iterator[Tenant]:
    """A new tenant with 200 GPUs. After the test its leases are ended, and cloud and database must agree."""
    with operator.tenant(named_after(request), 200) as made:
        yield made
        left_nothing(made, operator, cloud, stack.credentials.database_url)
