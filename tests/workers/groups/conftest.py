"""Groups over a fleet."""

import pytest

from tests.workers.fleet import Fleet
from tests.workers.groups.planted import Groups


@pytest.fixture
def groups(fleet: Fleet) -> Groups:
    return Groups(fleet)
