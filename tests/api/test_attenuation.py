"""What restricts a key restricts what the key makes: each operation that returns a secret.

Budgets: `test_cost_owners`. Roles: `tests/security/test_doors.py`.
"""

from collections.abc import Awaitable, Callable
from typing import Any

import httpx
import pytest

from tests.api.conftest import Caller
from tests.api.fleet import Fleet

SOON, LATER = "2998-01-01T00:00:00Z", "2999-01-01T00:00:00Z"

Make = Callable[[Caller, str, dict[str, Any]], Awaitable[httpx.Response]]
"""An attempt to get a key: of a caller, with another key of the tenant, and with more members of the body."""


def _keys(caller: Caller) -> str:
    return f"/v1/tenants/{caller.tenant_id}/keys"


async def _create(by: Caller, other: str, more: dict[str, Any]) -> httpx.Response:
    return await by.post(_keys(by), json={"name": "made", "role": "admin", **more})


async def _rotate(by: Caller, other: str, more: dict[str, Any]) -> httpx.Response:
    return await by.post(f"/v1/keys/{other}/rotate", json={})


MAKES_KEYS: dict[str, Make] = {"create_key": _create, "rotate_key": _rotate}
SIGNS = {"create_webhook", "rotate_webhook_secret"}
"""Their secret signs messages to a receiver. It opens nothing."""


def _properties(schema: Any, spec: dict[str, Any]) -> set[str]:
    """All names of members in a schema, of members too."""
    if isinstance(schema, list):
        return set().union(*(_properties(one, spec) for one in schema))
    if not isinstance(schema, dict):
        return set()
    if "$ref" in schema:
        return _properties(spec["components"]["schemas"][schema["$ref"].rsplit("/", 1)[-1]], spec)
    found = set(schema.get("properties", {}))
    for part in (*schema.get("properties", {}).values(), *(schema.get(key) for key in ("anyOf", "allOf", "items"))):
        found |= _properties(part, spec)
    return found


def test_every_operation_that_returns_a_secret_is_listed(spec: dict[str, Any]) -> None:
    operations = [
        one
        for path in spec["paths"].values()
        for method, one in path.items()
        if method in {"post", "put", "patch", "delete", "get"}
    ]
    secret = {
        one["operationId"]
        for one in operations
        for status, answer in one["responses"].items()
        if status.startswith("2")
        for media in answer.get("content", {}).values()
        if {name for name in _properties(media.get("schema"), spec) if name in {"secret", "token", "password"}}
    }
    assert secret == {*MAKES_KEYS, *SIGNS}


async def _made(by: Caller, **body: Any) -> tuple[Caller, str]:
    answer = await by.post(_keys(by), json={"name": "key", "role": "admin", **body})
    assert answer.status_code == 201, answer.text
    return Caller(by.app, answer.json()["secret"], by.tenant_id), answer.json()["id"]


WISHES: list[dict[str, Any]] = [{}, {"expires_at": LATER}, {"expires_at": None}, {"budget": "1000.00"}]


@pytest.mark.parametrize("wish", WISHES, ids=str)
@pytest.mark.parametrize("operation", MAKES_KEYS)
async def test_a_key_that_expires_makes_no_key_that_works_longer(
    alice: Caller, database_url: str, operation: str, wish: dict[str, Any]
) -> None:
    """Also not in two steps: with a key that it made."""
    short, own = await _made(alice, expires_at=SOON)
    _, other = await _made(alice)
    fleet = Fleet(database_url)
    before = fleet.run("SELECT secret_hash, expires_at FROM api_key WHERE id = %s", other)
    callers = [short]
    for _ in range(2):
        answers = [await MAKES_KEYS[operation](by, target, wish) for by in callers for target in (other, own)]
        secrets = [answer.json()["secret"] for answer in answers if answer.is_success]
        callers = [Caller(alice.app, secret, alice.tenant_id) for secret in secrets[:2]] or [short]
    keys = fleet.run("SELECT id, expires_at FROM api_key WHERE name IN ('made', 'key') AND id <> %s", other)
    assert {row["expires_at"].isoformat() for row in keys} == {SOON.replace("Z", "+00:00")}
    assert fleet.run("SELECT secret_hash, expires_at FROM api_key WHERE id = %s", other) == before


async def test_a_later_expiry_than_the_callers_is_refused_by_name(alice: Caller) -> None:
    short, own = await _made(alice, expires_at=SOON)
    refused = await short.post(_keys(short), json={"name": "made", "role": "viewer", "expires_at": LATER})
    assert refused.status_code == 422
    assert refused.json()["errors"] == [
        {"pointer": "#/body/expires_at", "detail": f"must be at most {SOON}, when the key of this request expires"}
    ]
    _, other = await _made(alice)
    forbidden = await short.post(f"/v1/keys/{other}/rotate", json={})
    assert (forbidden.status_code, forbidden.json()["code"]) == (403, "forbidden")
    assert (await short.post(f"/v1/keys/{own}/rotate", json={})).status_code == 201
