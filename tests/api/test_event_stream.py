"""Events as they come, and waiting for a change of one lease: over a real server, since only there answers have a middle."""

import asyncio
import contextlib
import json
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import httpx
import pytest
from sqlalchemy import create_engine

from app.api.routes import event_stream
from app.bootstrap import build_api
from app.db.core.ids import new_id
from app.db.core.urls import sync_url
from app.db.operations import brakes
from app.domain.ids import TenantId
from app.domain.list_filters import EventFilter
from app.local.ports import LOOPBACK
from app.prerequisites import ensure_operator_key
from app.server.api import Server
from app.services import key_format
from app.services.errors import TooManyStreams
from app.services.principal import Principal, Role
from cloudsim.testing import NO_TLS
from tests.api.conftest import Caller, MakeSettings, new_tenant, serving
from tests.api.fleet import Fleet

pytestmark = pytest.mark.usefixtures("fleet")

WISH = {"gpu": {"model": "A10G"}, "ttl_seconds": 3600}


@pytest.fixture
def fleet(database_url: str) -> Fleet:
    made = Fleet(database_url)
    made.catalogue()
    return made


class Running:
    """A server of two tenants, alice and bob, each with room for some leases."""

    def __init__(self, server: Server, url: str, operator: Caller, alice: Caller, bob: Caller) -> None:
        self.server, self.url = server, url
        self.operator, self.alice, self.bob = operator, alice, bob

    def client(self, caller: Caller) -> httpx.AsyncClient:
        headers = {"Authorization": f"Bearer {caller.key}"}
        return httpx.AsyncClient(base_url=self.url, headers=headers, timeout=20, verify=NO_TLS)


@asynccontextmanager
async def running(make_settings: MakeSettings, database_url: str, **settings: object) -> AsyncIterator[Running]:
    listener = socket.create_server((LOOPBACK, 0))
    app = build_api(make_settings(key_cache_seconds=0.0, **settings))
    server = Server(app)
    serving = asyncio.create_task(server.serve(sockets=[listener]))
    operator = Caller(app, ensure_operator_key(database_url, None))
    alice, bob = [await new_tenant(operator, name, gpus=20, leases=20) for name in ("alice", "bob")]
    try:
        yield Running(server, f"http://{LOOPBACK}:{listener.getsockname()[1]}", operator, alice, bob)
    finally:
        server.should_exit = True
        await serving


@pytest.fixture
async def api(make_settings: MakeSettings, database_url: str) -> AsyncIterator[Running]:
    async with running(make_settings, database_url) as up:
        yield up


class Stream:
    """An open event stream."""

    def __init__(self, answer: httpx.Response) -> None:
        self.answer = answer
        self._lines = answer.aiter_lines()

    async def block(self) -> dict[str, str]:
        """The next block: its fields; a comment is under the empty name."""
        fields: dict[str, str] = {}
        async for line in self._lines:
            if not line:
                return fields
            name, _, value = line.partition(": ")
            fields[name.removesuffix(":")] = value
        raise EOFError

    async def end(self) -> None:
        """Until the server has closed it."""
        with contextlib.suppress(EOFError):
            while True:
                await self.block()

    async def event(self) -> dict[str, Any]:
        """The next event's document, of which the frame says the same."""
        while "data" not in (block := await asyncio.wait_for(self.block(), 15)):
            pass
        document: dict[str, Any] = json.loads(block["data"])
        assert (block["id"], block["event"]) == (str(document["sequence"]), document["type"])
        return document


@asynccontextmanager
async def stream(api: Running, caller: Caller, query: str = "", **headers: str) -> AsyncIterator[Stream]:
    async with (
        api.client(caller) as client,
        client.stream("GET", f"/v1/events/stream{query}", headers=headers) as answer,
    ):
        if answer.is_error:
            await answer.aread()
        yield Stream(answer)


async def create(caller: Caller, fleet: Fleet) -> str:
    """A lease, its first event numbered."""
    made = await caller.post("/v1/leases", json=WISH)
    assert made.status_code == 201, made.text
    fleet.number_events()
    return str(made.json()["id"])


async def test_what_happens_is_told_to_the_tenant_it_happens_to(api: Running, fleet: Fleet) -> None:
    async with stream(api, api.alice) as mine, stream(api, api.bob) as theirs, stream(api, api.operator) as all_of_it:
        assert mine.answer.headers["content-type"].startswith("text/event-stream")
        assert await mine.block() == {"retry": "2000", "id": "0"}
        of_alice = await create(api.alice, fleet)
        of_bob = await create(api.bob, fleet)
        assert (await mine.event())["lease_id"] == of_alice
        assert (await theirs.event())["lease_id"] == of_bob
        assert [(await all_of_it.event())["lease_id"] for _ in range(2)] == [of_alice, of_bob]
        await api.alice.delete(f"/v1/leases/{of_alice}")
        fleet.number_events()
        told = await mine.event()
        assert (told["type"], told["lease_sequence"]) == ("lease.releasing", 2)
        listed = (await api.alice.get("/v1/events?after=2")).json()["items"]
        assert [told] == listed


async def test_a_stream_goes_on_after_the_last_event_seen(api: Running, fleet: Fleet) -> None:
    made = [await create(api.alice, fleet) for _ in range(4)]
    async with stream(api, api.alice, **{"Last-Event-ID": "1"}) as again:
        assert [(await again.event())["lease_id"] for _ in range(3)] == made[1:]
        newest = await create(api.alice, fleet)
        assert (await again.event())["lease_id"] == newest
    async with (
        stream(api, api.alice, "?after=4") as later,
        stream(api, api.alice, f"?after=0&lease_id={made[2]}") as one,
    ):
        assert (await later.event())["lease_id"] == newest
        assert (await one.event())["lease_id"] == made[2]


async def test_what_is_no_longer_kept_is_gone(api: Running, fleet: Fleet) -> None:
    for _ in range(3):
        await create(api.alice, fleet)
    fleet.run("DELETE FROM event WHERE sequence <= 2")
    async with stream(api, api.alice, "?after=1") as refused:
        assert (refused.answer.status_code, refused.answer.json()["code"]) == (410, "cursor_expired")


async def test_a_restore_ends_streams_and_their_readers_start_over(api: Running, fleet: Fleet) -> None:
    """The backup has the first event of two. The hold after the restore moves the counter."""
    async with stream(api, api.alice) as followed:
        for number in (1, 2):
            await create(api.alice, fleet)
            assert (await followed.event())["sequence"] == number
        fleet.run("DELETE FROM event WHERE sequence = 2")
        fleet.run("UPDATE installation SET event_sequence = 1")
        engine = create_engine(sync_url(fleet.url))
        with engine.begin() as connection:
            connection.execute(brakes.set_hold("restored"))
        engine.dispose()
        await create(api.alice, fleet)
        with pytest.raises(EOFError):
            await followed.event()
    async with stream(api, api.alice, **{"Last-Event-ID": "2"}) as refused:
        assert (refused.answer.status_code, refused.answer.json()["code"]) == (410, "cursor_expired")
    async with stream(api, api.alice, "?after=1") as earlier:
        assert (await earlier.event())["sequence"] == 1 + brakes.LOST_NUMBERS + 1
    # put back, so that the events of each lease are whole again
    fleet.run("DELETE FROM event")


async def test_another_tenants_stream_is_not_to_be_had(api: Running) -> None:
    async with stream(api, api.alice, f"?tenant_id={api.bob.tenant_id}") as refused:
        assert refused.answer.status_code == 422
    async with stream(api, Caller(api.alice.app, "gpl_no_key")) as refused:
        assert refused.answer.status_code == 401


async def test_a_reader_who_takes_his_time_misses_nothing_and_keeps_nobody_waiting(api: Running, fleet: Fleet) -> None:
    async with stream(api, api.alice) as slow, stream(api, api.alice) as quick:
        made = [await create(api.alice, fleet) for _ in range(5)]
        assert [(await quick.event())["lease_id"] for _ in made] == made
        assert [(await slow.event())["lease_id"] for _ in made] == made


async def test_a_stream_that_breaks_before_its_first_event_has_a_position(api: Running, fleet: Fleet) -> None:
    await create(api.alice, fleet)
    async with stream(api, api.alice) as mine:
        position = (await mine.block())["id"]
    assert position == "1"
    missed = await create(api.alice, fleet)
    async with stream(api, api.alice, **{"Last-Event-ID": position}) as mine:
        assert (await mine.event())["lease_id"] == missed


async def test_a_stream_ends_when_its_key_is_revoked(api: Running, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(event_stream, "HEARTBEAT_SECONDS", 0.2)
    viewer = await api.alice.member("viewer")
    async with stream(api, viewer) as mine:
        assert await mine.block() == {"retry": "2000", "id": "0"}
        assert await mine.block() == {"": "still here"}
        key_id = (await viewer.get("/v1/me")).json()["key_id"]
        assert (await api.alice.delete(f"/v1/keys/{key_id}")).is_success
        await asyncio.wait_for(mine.end(), 15)


async def test_a_tenant_has_a_quarter_of_the_streams(make_settings: MakeSettings, database_url: str) -> None:
    async with (
        running(make_settings, database_url, max_streams=8) as api,
        stream(api, api.alice),
        stream(api, api.alice),
        stream(api, api.bob),
        stream(api, api.bob),
    ):
        for caller in (api.alice, api.bob):
            async with stream(api, caller) as refused:
                assert (refused.answer.status_code, refused.answer.json()["code"]) == (503, "too_many_streams")
                assert refused.answer.headers["retry-after"] == "5"
                assert "tenant" in refused.answer.json()["detail"]
        async with stream(api, await new_tenant(api.operator, "carol")) as theirs:
            assert theirs.answer.status_code == 200


async def test_a_key_has_fifty_streams_and_long_polls(make_settings: MakeSettings, fleet: Fleet) -> None:
    async with serving(make_settings(max_streams=1000)) as app:
        alice = await new_tenant(Caller(app, ensure_operator_key(fleet.url, None)), "alice", gpus=1, leases=1)
        made = (await alice.post("/v1/leases", json=WISH)).json()
        async with contextlib.AsyncExitStack() as opened:
            for _ in range(50):
                told = app.state.services.streams.follow(
                    principal_of(alice), EventFilter(), after=None, heartbeat_seconds=60.0
                )
                opened.push_async_callback(told.aclose)
                await anext(told)
            poll = {"poll_seconds": "20", "if_version": str(made["version"])}
            refused = await alice.get(f"/v1/leases/{made['id']}", params=poll)
            assert (refused.status_code, refused.json()["code"]) == (503, "too_many_streams")
            assert "50" in refused.json()["detail"]
            other = await alice.member("viewer")
            assert (await other.get(f"/v1/leases/{made['id']}", params=poll | {"poll_seconds": "1"})).status_code == 200
        at_last = await alice.get(f"/v1/leases/{made['id']}", params=poll | {"poll_seconds": "1"})
        assert at_last.status_code == 200


def principal_of(caller: Caller) -> Principal:
    key = key_format.parse(caller.key)
    assert key is not None
    tenant_id, role = TenantId(caller.tenant_id), Role.ADMIN
    facts = {"key_name": "admin", "address": None, "request_id": "req_1"}
    return Principal(key_id=key.key_id, role=role, tenant_id=tenant_id, **facts)


async def test_all_streams_together_are_limited(make_settings: MakeSettings, fleet: Fleet) -> None:
    async with serving(make_settings(max_streams=4)) as app:
        operator = Caller(app, ensure_operator_key(fleet.url, None))
        async with contextlib.AsyncExitStack() as opened:
            tenants = [await new_tenant(operator, name) for name in ("one", "two", "three", "four", "five")]
            streams = [
                app.state.services.streams.follow(principal_of(one), EventFilter(), after=None, heartbeat_seconds=60.0)
                for one in tenants
            ]
            for told in streams[:4]:
                opened.push_async_callback(told.aclose)
                await anext(told)
            with pytest.raises(TooManyStreams):
                await anext(streams[4])


async def test_the_servers_end_ends_streams(api: Running) -> None:
    async with stream(api, api.alice) as mine:
        await mine.block()
        api.server.should_exit = True
        await asyncio.wait_for(mine.end(), 5)


async def test_waiting_for_another_version_answers_when_there_is_one(api: Running, fleet: Fleet) -> None:
    lease_id = await create(api.alice, fleet)
    path = f"/v1/leases/{lease_id}"
    version = (await api.alice.get(path)).json()["version"]
    async with api.client(api.alice) as client:
        at_once = await client.get(path, params={"poll_seconds": 60, "if_version": version - 1})
        assert at_once.json()["version"] == version
        in_time = await client.get(path, params={"poll_seconds": 1, "if_version": version})
        assert in_time.json()["version"] == version
        waiting = asyncio.create_task(client.get(path, params={"poll_seconds": 60, "if_version": version}))
        await create(api.alice, fleet)
        assert (await api.alice.patch(path, json={"name": "other"})).is_success
        fleet.number_events()
        changed = (await asyncio.wait_for(waiting, 15)).json()
        assert (changed["name"], changed["version"]) == ("other", version + 1)
        unknown = await client.get(f"/v1/leases/{new_id('lease')}", params={"poll_seconds": 60, "if_version": 1})
        assert unknown.status_code == 404
