"""A database and a receiver of messages."""

from collections.abc import Iterator

import pytest

from tests.db.store import Store
from tests.workers.receiver import Receiver, receiving
from workers.runtime.database import WorkerDatabase


@pytest.fixture
def store(database_url: str) -> Iterator[Store]:
    database = WorkerDatabase(database_url, pool_size=16)
    yield Store(database)
    database.close()


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    with receiving() as made:
        yield made
