"""A stack with accounts at all three simulated clouds; the tests beside (tests/e2e) need one cloud alone, which is lighter."""

import re
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.e2e.cloud import Cloud
from tests.e2e.people import Operator, Tenant
from tests.e2e.stack import Stack, running
from tests.e2e.truth import left_nothing


@pytest.fixture(scope="package")
def stack() -> Iterator[Stack]:
    with tempfile.TemporaryDirectory(prefix="gpulease-e2e-") as folder, running(Path(folder)) as up:
        yield up


@pytest.fixture(scope="package")
def cloud(stack: Stack) -> Iterator[Cloud]:
    with Cloud(stack.credentials.cloudsim_url) as simulated:
        yield simulated


@pytest.fixture(scope="package")
def operator(stack: Stack) -> Iterator[Operator]:
    with Operator(stack.credentials.api_url, stack.credentials.operator_key) as person:
        person.wait_for_offerings("aws", "gcp", "azure")
        yield person


@pytest.fixture
def tenant(request: pytest.FixtureRequest, stack: Stack, operator: Operator, cloud: Cloud) -> Iterator[Tenant]:
    """A new tenant with 200 GPUs. After the test its leases are ended, and clouds and database must agree."""
    with operator.tenant(re.sub(r"\W", "_", request.node.name)[:60].strip("_"), 200) as made:
        yield made
        left_nothing(made, operator, cloud, stack.credentials.database_url)
