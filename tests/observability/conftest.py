"""An API over the real database, with a tenant, and everything in it well."""

from collections.abc import AsyncIterator

import pytest
from fastapi import FastAPI

from app.prerequisites import ensure_operator_key
from app.settings import load_settings
from tests.api.conftest import Caller, new_tenant, serving
from tests.api.fleet import Fleet
from tests.observability.world import World


@pytest.fixture
async def app(database_url: str, broker_url: str) -> AsyncIterator[FastAPI]:
    async with serving(
        load_settings(database_url=database_url, broker_url=broker_url, catalogue_cache_seconds=0)
    ) as running:
        yield running


@pytest.fixture
async def world(app: FastAPI, database_url: str) -> AsyncIterator[World]:
    operator = Caller(app, ensure_operator_key(database_url, None))
    made = World(app, await new_tenant(operator, "alice", gpus=8, leases=10), Fleet(database_url))
    await made.settle()
    yield made
    made.mend()
