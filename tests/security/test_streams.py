"""What never ends by itself: each kind has a test here, and a new one fails until it has one too."""

from collections.abc import AsyncIterator

import pytest

from app.api.routes import event_stream
from tests.api.conftest import Caller, MakeSettings
from tests.api.fleet import Fleet
from tests.api.test_event_stream import Running, create, running, stream
from tests.security.routes import STREAMS


def test_every_stream_is_known_here() -> None:
    assert {one.id for one in STREAMS} == {"stream_events"}
    assert {*STREAMS[0].names("query")} == {"after", "tenant_id", "lease_id", "type"}


@pytest.fixture
async def api(make_settings: MakeSettings, database_url: str) -> AsyncIterator[Running]:
    async with running(make_settings, database_url) as up:
        yield up


async def test_a_stream_tells_ones_own_events_alone(
    api: Running, fleet: Fleet, monkeypatch: pytest.MonkeyPatch
) -> None:
    """From now on and from the beginning, from what is kept and from the database, whatever lease is named."""
    monkeypatch.setattr(event_stream, "HEARTBEAT_SECONDS", 0.3)
    theirs = await create(api.bob, fleet)
    async with (
        stream(api, api.alice) as new,
        stream(api, api.alice, "?after=0") as all_of_them,
        stream(api, api.alice, f"?after=0&lease_id={theirs}") as of_anothers_lease,
        stream(api, api.alice, **{"Last-Event-ID": "0"}) as as_browsers_do,
    ):
        for _ in range(2):
            await create(api.bob, fleet)
        mine = await create(api.alice, fleet)
        for one in (new, all_of_them, as_browsers_do):
            assert (await one.event())["lease_id"] == mine
        blocks = [await of_anothers_lease.block() for _ in range(4)]
        assert [sorted(block) for block in blocks] == [["id", "retry"], [""], [""], [""]]


async def test_nobody_names_another_tenant(api: Running) -> None:
    for tenant_id in (api.bob.tenant_id, "tenant_01h455vb4pex5vsknk084sn02q", "%00"):
        async with stream(api, api.alice, f"?tenant_id={tenant_id}") as refused:
            assert refused.answer.status_code == 422
            assert "X-Accel-Buffering" not in refused.answer.headers
    async with stream(api, Caller(api.alice.app, "gpl_x")) as refused:
        assert refused.answer.status_code == 401
