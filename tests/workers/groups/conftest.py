"""A fleet that has groups."""

from collections.abc import Callable

import pytest

from tests.workers.fleet import Fleet
from tests.workers.groups.group_fleet import GroupFleet


@pytest.fixture
def groups(fleet: Fleet) -> GroupFleet:
    """Groups of one worker with fast settings."""
    return GroupFleet(fleet)


@pytest.fixture
def make_groups(make_fleet: Callable[..., Fleet]) -> Callable[..., GroupFleet]:
    """Groups of a worker with changed settings."""

    def make(**changes: object) -> GroupFleet:
        return GroupFleet(make_fleet(**changes))

    return make
