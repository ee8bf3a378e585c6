"""A database of its own for the simulation: its clock is virtual, which no other test may meet."""

from collections.abc import Iterator

import pytest

from tests.harness.databases import Databases
from tests.simulation.database import Clocked


@pytest.fixture(scope="session")
def clocked(postgres_server: str) -> Iterator[Clocked]:
    """The simulation's connection, made once for all seeds of a pytest process."""
    databases = Databases(postgres_server)
    with databases.fresh(checked=False) as url:
        made = Clocked(databases.owner_url, url)
        yield made
        made.close()
    databases.close()
