"""The workers' side of a real database, with a tenant in it."""

from collections.abc import Iterator

import pytest

from tests.db.store import Store
from workers.runtime.database import WorkerDatabase


@pytest.fixture
def store(database_url: str) -> Iterator[Store]:
    """The tables as a worker sees them."""
    database = WorkerDatabase(database_url, pool_size=16)
    yield Store(database)
    database.close()
