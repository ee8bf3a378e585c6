"""The resources of the Python client against the API in this process, and the wait for a group over scripted answers."""

from collections.abc import AsyncIterator
from datetime import timedelta
from types import ModuleType
from typing import Any

import httpx
import pytest

from tests.api.clients.lossy import example
from tests.api.clients.test_python_layer import Script
from tests.api.conftest import Caller
from tests.api.fleet import Fleet

MEMBER = {"gpu": {"model": "A10G"}, "ttl_seconds": 3600}
HOOK = "https://93.184.216.34/hook"


@pytest.fixture
async def client(gpulease_client: ModuleType, alice: Caller, fleet: Fleet) -> AsyncIterator[Any]:
    """The asynchronous client with the key of an admin."""
    transport = httpx.ASGITransport(alice.app)
    async with gpulease_client.AsyncClient("http://api.test", alice.key, transport=transport) as connected:
        yield connected


async def test_a_group_is_planned_created_scaled_extended_and_released(
    client: Any, fleet: Fleet, gpulease_client: ModuleType
) -> None:
    request = {"name": "train", "size": 2, "lease": MEMBER}
    assert (await client.groups.plan(request)).cost.price_per_hour == "2.012"
    made = await client.groups.create(request, idempotency_key="mine")
    assert (await client.groups.create(**request, idempotency_key="mine")).id == made.id
    assert [group.id async for group in client.groups.list(state="!ended")] == [made.id]
    assert (await client.groups.scale(made.id, 3)).size == 3
    longer = await client.groups.extend(made.id, extend_by_seconds=3600)
    assert longer.expires_at > made.expires_at
    assert not (await client.groups.hosts(made.id)).complete
    fleet.number_events()
    assert {event.type_ async for event in client.groups.events(made.id)} >= {"group.queued", "group.resized"}
    released = await client.groups.release(made.id)
    with pytest.raises(gpulease_client.GroupEndedError, match=f"group {made.id} is "):
        await client.groups.wait(released)
    assert (await client.groups.wait(made.id, lambda group: bool(group.release_requested_at))).id == made.id


async def test_money_has_methods(client: Any) -> None:
    quote = await client.quotes.create(MEMBER)
    assert (await client.quotes.get(quote.id)).total == quote.total == "1.006"
    made = await client.budgets.create(scope={"kind": "tenant"}, period="lifetime", amount="50")
    assert (await client.budgets.update(made.id, amount="60")).version > made.version
    assert [budget.amount async for budget in client.budgets.list()] == ["60.00"]
    lease = await client.leases.create(quote_id=quote.id)
    assert (await client.budgets.get(made.id)).committed == "1.006"
    await client.budgets.delete(made.id)
    assert [budget async for budget in client.budgets.list()] == []
    day_before = lease.created_at - timedelta(days=1)
    assert (await client.costs.get(start=day_before, bucket="hour")).total.leases == 0
    assert [line async for line in client.costs.list(group_by="gpu_model")] == []
    assert (await client.costs.forecast()).currency == "USD"


async def test_webhooks_have_methods(client: Any) -> None:
    made = await client.webhooks.create(url=HOOK, event_types=["lease.failed"])
    assert made.secret
    assert (await client.webhooks.rotate_secret(made.id)).secret != made.secret
    assert not (await client.webhooks.update(made.id, description="mine", enabled=False)).enabled
    await client.webhooks.update(made.id, enabled=True)
    sent = await client.webhooks.test(made.id)
    assert [one.id async for one in client.webhooks.deliveries(made.id)] == [sent.id]
    assert (await client.webhooks.replay(made.id, sent.id)).event_id == sent.event_id
    assert [one.description async for one in client.webhooks.list()] == ["mine"]
    assert (await client.webhooks.get(made.id)).url == HOOK
    await client.webhooks.delete(made.id)
    assert [one async for one in client.webhooks.list()] == []


async def test_keys_have_methods(client: Any, alice: Caller, operator: Caller, gpulease_client: ModuleType) -> None:
    made = await client.keys.create(name="ci", role="member", budget="5")
    newer = await client.keys.rotate(made.id, overlap_seconds=60)
    assert newer.secret != made.secret
    assert newer.previous_valid_until is not None
    assert {key.name async for key in client.keys.list()} >= {"admin", "ci"}
    assert (await client.keys.revoke(made.id)).revoked_at is not None
    transport = httpx.ASGITransport(alice.app)
    async with gpulease_client.AsyncClient("http://api.test", operator.key, transport=transport) as operating:
        assert made.id in [key.id async for key in operating.keys.list(tenant_id=alice.tenant_id)]
        with pytest.raises(gpulease_client.InvalidValueError, match="give tenant_id"):
            await operating.keys.create(name="x", role="viewer")


def test_the_wait_for_a_group_ends_when_it_is_formed_ends_or_takes_too_long(gpulease_client: ModuleType) -> None:
    group = example("/v1/groups", "post", "201")
    forming = {**group, "state": "forming", "version": 2}

    def wait(*answers: dict[str, Any], **options: Any) -> Any:
        script = Script(*(httpx.Response(200, json=answer) for answer in answers))
        connected = gpulease_client.Client("http://api.test", "key", transport=script.transport)
        return connected.groups.wait(group["id"], poll_seconds=0.001, **options)

    states: list[str] = []
    degraded = {**group, "state": "degraded", "version": 3}
    formed = wait(group, forming, forming, degraded, on_change=lambda one: states.append(str(one.state.value)))
    assert (formed.version, states) == (3, ["queued", "forming", "degraded"])
    reason = {"code": "capacity_exhausted", "message": "no pool", "origin": "system", "retryable": True}
    ending = {**group, "state": "releasing", "reason": reason, "version": 3}
    with pytest.raises(gpulease_client.GroupEndedError, match="is releasing: no pool"):
        wait(forming, ending)
    ended = {**ending, "state": "ended", "terminal": True}
    assert wait(ending, ended, until="ended").terminal
    with pytest.raises(TimeoutError, match="is forming and not yet formed; it still exists"):
        wait(forming, timeout=0)
