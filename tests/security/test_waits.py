"""What is sent after a wait is sent under the rights of that moment: each call that waits, and each way to lose a key."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable

import pytest

from app.services import key_format
from tests.api.conftest import Caller, MakeSettings
from tests.api.fleet import Fleet
from tests.api.test_event_stream import Running, create, running, stream
from tests.security.routes import OPERATIONS, STREAMS

NEW_NAME = "renamed-after-it"
"""A name that the lease gets after the right has ended."""


@pytest.fixture
async def api(make_settings: MakeSettings, database_url: str) -> AsyncIterator[Running]:
    async with running(make_settings, database_url) as up:
        yield up


def _key_id(caller: Caller) -> str:
    parsed = key_format.parse(caller.key)
    assert parsed is not None
    return parsed.key_id


async def revoked(api: Running, fleet: Fleet, key_id: str) -> None:
    assert (await api.alice.delete(f"/v1/keys/{key_id}")).is_success


async def expired(api: Running, fleet: Fleet, key_id: str) -> None:
    fleet.run("UPDATE api_key SET expires_at = now() WHERE id = %s", key_id)


async def rotated(api: Running, fleet: Fleet, key_id: str) -> None:
    assert (await api.alice.post(f"/v1/keys/{key_id}/rotate", json={})).status_code == 201


async def demoted(api: Running, fleet: Fleet, key_id: str) -> None:
    """No operation changes a role. An operator may in the database."""
    fleet.run("UPDATE api_key SET role = 'viewer' WHERE id = %s", key_id)


async def suspended(api: Running, fleet: Fleet, key_id: str) -> None:
    path = f"/v1/tenants/{api.alice.tenant_id}"
    assert (await api.operator.patch(path, json={"status": "suspended"})).is_success


async def nothing(api: Running, fleet: Fleet, key_id: str) -> None:
    """The key keeps its rights."""


async def _long_poll(api: Running, caller: Caller, path: str, change: Callable[[], Awaitable[None]]) -> str:
    version = (await caller.get(path)).json()["version"]
    async with api.client(caller) as client:
        waiting = asyncio.create_task(client.get(path, params={"poll_seconds": 60, "if_version": version}))
        await _until_open(api)
        await change()
        return (await asyncio.wait_for(waiting, 15)).text


async def _stream(api: Running, caller: Caller, path: str, change: Callable[[], Awaitable[None]]) -> str:
    async with stream(api, caller) as mine:
        await mine.block()
        await change()
        sent = ""
        with contextlib.suppress(EOFError):
            while NEW_NAME not in sent:
                sent += str(await mine.event())
        return sent


WAITS: dict[str, Callable[..., Awaitable[str]]] = {"get_lease": _long_poll, "stream_events": _stream}
ENDS = (revoked, expired, rotated, demoted)
KEEPS = (nothing, suspended)


async def _until_open(api: Running) -> None:
    streams = api.alice.app.state.services.streams
    async with asyncio.timeout(15):
        while not streams._open:  # noqa: ASYNC110 - requests of other tasks make it true
            await asyncio.sleep(0.01)


def test_every_call_that_waits_is_known_here() -> None:
    polls = {one.id for one in OPERATIONS if "poll_seconds" in one.names("query")}
    assert polls | {one.id for one in STREAMS} == set(WAITS)


@pytest.mark.parametrize("event", [*ENDS, *KEEPS])
@pytest.mark.parametrize("call", WAITS)
async def test_what_is_sent_after_a_wait_has_the_rights_of_that_moment(
    api: Running, fleet: Fleet, call: str, event: Callable[..., Awaitable[None]]
) -> None:
    """A suspended tenant reads on, as with any other call."""
    caller = await api.alice.member("member")
    path = f"/v1/leases/{await create(api.alice, fleet)}"

    async def change() -> None:
        await event(api, fleet, _key_id(caller))
        assert (await api.alice.patch(path, json={"name": NEW_NAME})).is_success
        fleet.number_events()

    sent = await WAITS[call](api, caller, path, change)
    assert (NEW_NAME in sent) == (event in KEEPS), sent
