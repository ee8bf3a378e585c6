"""The API over an in-process transport, on the real database; `operator`, `alice` (admin) and `bob` are its callers."""

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

import httpx
import pytest
from fastapi import FastAPI

from app.bootstrap import build_api
from app.prerequisites import ensure_operator_key
from app.settings import Settings, load_settings

MakeSettings = Callable[..., Settings]


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


@asynccontextmanager
async def serving(settings: Settings) -> AsyncIterator[FastAPI]:
    """The application between its start and its end."""
    app = build_api(settings)
    async with app.router.lifespan_context(app):
        yield app


@pytest.fixture
def make_settings(database_url: str, broker_url: str) -> MakeSettings:
    """Settings of an API on the test's own database and Redis."""

    def make(**overrides: object) -> Settings:
        return load_settings(database_url=database_url, broker_url=broker_url, **overrides)

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
async def operator(app: FastAPI, database_url: str) -> AsyncIterator[Caller]:
    async with Caller(app, ensure_operator_key(database_url, None)) as caller:
        yield caller


@pytest.fixture
async def alice(operator: Caller) -> Caller:
    """Admin of a tenant with room for 8 GPUs and 10 leases."""
    return await new_tenant(operator, "alice", gpus=8, leases=10)


@pytest.fixture
async def bob(operator: Caller) -> Caller:
    """Admin of another tenant, with the same room."""
    return await new_tenant(operator, "bob", gpus=8, leases=10)
