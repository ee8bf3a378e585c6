"""The application of tests/api without rate limits in the way, and a small catalogue."""

from collections.abc import AsyncIterator

import pytest
from fastapi import FastAPI

from tests.api import conftest as api
from tests.api.conftest import MakeSettings, serving
from tests.api.fleet import Fleet

make_settings = api.make_settings
anonymous = api.anonymous
operator = api.operator
alice = api.alice
bob = api.bob

UNLIMITED = "1000000/minute"


@pytest.fixture
def fleet(database_url: str) -> Fleet:
    made = Fleet(database_url)
    made.catalogue()
    return made


@pytest.fixture
async def app(make_settings: MakeSettings) -> AsyncIterator[FastAPI]:
    async with serving(
        make_settings(rate_limit=UNLIMITED, write_rate_limit=UNLIMITED, login_rate_limit=UNLIMITED)
    ) as running:
        yield running
