"""The API over an in-process transport, on the real database; `operator`, `alice` (admin) and `bob` are its callers."""

import sys
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from types import ModuleType
from typing import Any, cast

import httpx
import pytest
from fastapi import FastAPI

from app.bootstrap import build_api
from app.db.core.ids import new_id
from app.domain.ids import KeyId
from app.services import key_format
from app.settings import Settings
from tests.api import fleet
from tests.described import document
from tests.harness.cached_settings import read_settings
from tests.harness.databases import Databases

MakeSettings = Callable[..., Settings]

# httpx imports it at each request. Python looks for what is not installed in all folders each time: a twentieth of these
# tests. For a module that is None, Python does not look
sys.modules.setdefault("sniffio", cast("ModuleType", None))


class Caller(httpx.AsyncClient):
    """A client with one key. `tenant_id` is empty for operators."""

    def __init__(self, app: FastAPI, key: str | None, tenant_id: str = "") -> None:
        headers = {"Authorization": f"Bearer {key}"} if key else {}
        transport = httpx.ASGITransport(app, raise_app_exceptions=False, client=("192.0.2.7", 4711))
        super().__init__(transport=transport, base_url="http://api.test", headers=headers)
        self.app = app
        self.key = key or ""
        self.tenant_id = tenant_id

    async def member(self, role: str) -> "Caller":
        """Another caller of the same tenant, in `role`."""
        made = await self.post(f"/v1/tenants/{self.tenant_id}/keys", json={"name": role, "role": role})
        assert made.status_code == 201, made.text
        return Caller(self.app, made.json()["secret"], self.tenant_id)


async def new_tenant(operator: Caller, name: str, **limits: int | str) -> Caller:
    """The admin of a new tenant with these limits (`gpus=8`, `leases=10`, `spend_per_hour="2.50"` …)."""
    made = await operator.post("/v1/tenants", json={"name": name})
    assert made.status_code == 201, made.text
    tenant_id = made.json()["id"]
    rows = [{"resource": resource, "limit": limit} for resource, limit in limits.items()]
    assert (await operator.put(f"/v1/tenants/{tenant_id}/quotas", json={"limits": rows})).status_code == 200
    key = await operator.post(f"/v1/tenants/{tenant_id}/keys", json={"name": "admin", "role": "admin"})
    return Caller(operator.app, key.json()["secret"], tenant_id)


_OPERATOR = """
INSERT INTO api_key (id, role, name, secret_hash) VALUES (%(key)s, 'operator', 'operator', %(hash)s)
"""
_TENANT = """
WITH made AS (
    INSERT INTO tenant (id, name, max_ttl_seconds, max_total_seconds)
    VALUES (%(tenant)s, %(name)s, %(ttl)s, %(total)s)),
limits AS (
    INSERT INTO quota (tenant_id, resource, "limit")
    VALUES (%(tenant)s, 'gpus', 8), (%(tenant)s, 'leases', 10), (%(tenant)s, 'spend_per_hour', NULL))
INSERT INTO api_key (id, tenant_id, role, name, secret_hash) VALUES (%(key)s, %(tenant)s, 'admin', 'admin', %(hash)s)
"""


def written_operator(databases: Databases) -> str:
    """An operator's key without an entry in the trail: most tests only need somebody who may ask."""
    key = key_format.generate(KeyId(new_id("key")))
    databases.add(_OPERATOR, {"key": key.key_id, "hash": key.secret_hash})
    return key.text


def written_tenant(databases: Databases, app: FastAPI, name: str) -> Caller:
    """As `new_tenant` makes it, with 8 GPUs and 10 leases, by one statement and without entries in the trail."""
    key, tenant_id = key_format.generate(KeyId(new_id("key"))), new_id("tenant")
    settings: Settings = app.state.services.context.settings
    terms = {"ttl": settings.default_max_ttl_seconds, "total": settings.default_max_total_seconds}
    databases.add(_TENANT, {"tenant": tenant_id, "name": name, "key": key.key_id, "hash": key.secret_hash, **terms})
    return Caller(app, key.text, tenant_id)


@asynccontextmanager
async def serving(settings: Settings) -> AsyncIterator[FastAPI]:
    """The application between its start and its end."""
    app = build_api(settings)
    async with app.router.lifespan_context(app):
        yield app


@pytest.fixture
def database_url(database_url: str) -> Iterator[str]:
    """As everywhere. The next test takes over the connection by which this one has written."""
    yield database_url
    fleet.KEPT.hand_back()


@pytest.fixture
def make_settings(database_url: str, broker_url: str) -> MakeSettings:
    """Settings of an API on the test's own database and Redis."""

    def make(**overrides: object) -> Settings:
        return read_settings(database_url=database_url, broker_url=broker_url, **overrides)

    return make


@pytest.fixture
async def app(make_settings: MakeSettings) -> AsyncIterator[FastAPI]:
    async with serving(make_settings()) as running:
        yield running


@pytest.fixture
async def anonymous(app: FastAPI) -> AsyncIterator[Caller]:
    """Somebody without a key."""
    async with Caller(app, None) as caller:
        yield caller


@pytest.fixture
async def operator(app: FastAPI, databases: Databases) -> AsyncIterator[Caller]:
    async with Caller(app, written_operator(databases)) as caller:
        yield caller


@pytest.fixture
def alice(operator: Caller, databases: Databases) -> Caller:
    """Admin of a tenant with room for 8 GPUs and 10 leases."""
    return written_tenant(databases, operator.app, "alice")


@pytest.fixture
def bob(operator: Caller, databases: Databases) -> Caller:
    """Admin of another tenant, with the same room."""
    return written_tenant(databases, operator.app, "bob")


@pytest.fixture(scope="session")
def spec() -> dict[str, Any]:
    return document()
