"""One tenant's requests wait for each other, and not for those of others. Bounds are in numbers and order, not in time."""

import asyncio
import itertools
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from app.api.http.fair_queue import LONGEST_WAIT, MOST_WAITING, RequestQueue, Share
from app.services.errors import RateLimited
from tests.api.conftest import Caller

NOISY, QUIET = "noisy", "quiet"
SHARE = Share.of_pool(16)


class Work:
    """Requests that run until `go`, in the order in which they started."""

    def __init__(self) -> None:
        self.queue = RequestQueue(SHARE)
        self.started: list[str] = []
        self.now: list[str] = []
        self.go = asyncio.Event()

    async def request(self, identity: str, *, costly: bool) -> None:
        async with self.queue.turn(identity, costly=costly):
            self.started.append(identity)
            self.now.append(identity)
            await self.go.wait()
            self.now.remove(identity)


@asynccontextmanager
async def working(*requests: tuple[str, bool]) -> AsyncIterator[Work]:
    work = Work()
    async with asyncio.TaskGroup() as tasks:
        for identity, costly in requests:
            tasks.create_task(work.request(identity, costly=costly))
        await passes()
        yield work
        work.go.set()
    assert len(work.started) == len(requests)


async def passes(count: int = 20) -> None:
    for _ in range(count):
        await asyncio.sleep(0)


@pytest.mark.parametrize(("costly", "most"), [(True, 1), (False, SHARE.each)])
async def test_a_tenant_has_a_share_and_another_starts_at_once(costly: bool, most: int) -> None:
    async with working(*[(NOISY, costly)] * 50, (QUIET, costly)) as work:
        assert (work.now.count(NOISY), work.now.count(QUIET)) == (most, 1)


async def test_many_tenants_leave_connections_for_health_and_take_turns() -> None:
    many = [(f"tenant-{number % 10}", False) for number in range(100)]
    async with working(*many) as work:
        assert len(work.now) == SHARE.total == 14
    assert all(work.started[14:34].count(f"tenant-{number}") == 2 for number in range(10))


async def test_a_waiting_costly_request_starts_after_the_plain_ones_that_have_arrived() -> None:
    work = Work()
    order: list[str] = []
    release = asyncio.Event()

    async def plan(number: int) -> None:
        async with work.queue.turn(NOISY, costly=True):
            order.append(f"plan {number}")
            await release.wait() if number == 0 else await passes(2)

    async def read() -> None:
        async with work.queue.turn(QUIET, costly=False):
            await passes(5)
            order.append("read")

    async with asyncio.TaskGroup() as tasks:
        for number in range(3):
            tasks.create_task(plan(number))
        await passes()
        release.set()
        tasks.create_task(read())
    assert order == ["plan 0", "read", "plan 1", "plan 2"]


@pytest.mark.parametrize("tenants", [1, 20])
async def test_costly_requests_that_need_no_wait_leave_the_event_loop_to_others_between_them(tenants: int) -> None:
    queue = RequestQueue(SHARE)
    done: list[str] = []

    async def read_from_memory(number: int) -> None:
        async with queue.turn(f"tenant-{number % tenants}", costly=True):
            done.append("costly")

    async def count_passes() -> None:
        while done.count("costly") < 40:
            done.append("pass")
            await passes(1)

    await asyncio.gather(count_passes(), *map(read_from_memory, range(40)))
    assert not [pair for pair in itertools.pairwise(done) if pair == ("costly", "costly")]


async def test_a_costly_request_does_not_wait_for_plain_ones_for_ever() -> None:
    work = Work()
    async with asyncio.TaskGroup() as tasks:
        tasks.create_task(work.request(QUIET, costly=False))
        await passes()

        async def plan() -> None:
            async with work.queue.turn(NOISY, costly=True):
                await passes(2)

        async with asyncio.timeout(20):
            await asyncio.gather(plan(), plan())
        assert work.now == [QUIET]
        work.go.set()


async def test_those_that_give_up_leave_no_place_taken_and_too_many_are_refused() -> None:
    work = Work()
    tasks = [asyncio.create_task(work.request(NOISY, costly=True)) for _ in range(MOST_WAITING + 1)]
    await passes()
    with pytest.raises(RateLimited):
        await work.request(NOISY, costly=True)
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
    work.go.set()
    await work.request(NOISY, costly=True)
    assert work.started == [NOISY, NOISY]


async def test_a_request_that_waits_for_an_event_lets_others_run() -> None:
    queue = RequestQueue(Share(each=1, total=1, costly=1))
    async with queue.turn(NOISY, costly=True) as turn, turn.aside(), queue.turn(QUIET, costly=False):
        pass
    async with queue.turn(QUIET, costly=True):
        pass


async def test_health_answers_while_a_tenant_has_every_place_that_it_can_have(alice: Caller, bob: Caller) -> None:
    queue: RequestQueue = alice.app.state.gate._queue
    async with queue.turn(alice.tenant_id, costly=True):
        waiting = [asyncio.create_task(alice.get("/v1/offerings")) for _ in range(20)]
        assert (await bob.get("/v1/leases")).status_code == 200
        assert (await bob.get("/readyz")).status_code in {200, 503}
        assert (await bob.get("/livez")).status_code == 200
        assert not any(task.done() for task in waiting)
    assert {answer.status_code for answer in await asyncio.gather(*waiting)} == {200}


@pytest.mark.parametrize("path", ["/readyz", "/livez", "/metrics"])
async def test_health_answers_while_every_place_is_taken(alice: Caller, path: str) -> None:
    queue: RequestQueue = alice.app.state.gate._queue
    names = (f"tenant-{number}" for number in itertools.count())
    taken = list(itertools.takewhile(lambda name: queue.try_enter(name, costly=False), names))
    assert taken
    async with asyncio.timeout(LONGEST_WAIT / 2):
        answer = await alice.get(path)
    assert answer.status_code in {200, 503}
    for name in taken:
        queue.leave(name, costly=False)


async def test_a_waiting_costly_request_starts_after_a_health_check() -> None:
    work = Work()
    async with asyncio.TaskGroup() as tasks:
        for _ in range(2):
            tasks.create_task(work.request(NOISY, costly=True))
        await passes()
        with work.queue.outside():
            work.go.set()
            await passes()
            assert work.started == [NOISY]
        await passes()
        assert work.started == [NOISY, NOISY]


async def test_a_request_that_is_cancelled_as_its_turn_comes_disturbs_nobody() -> None:
    queue = RequestQueue(Share(each=1, total=1, costly=1))
    await queue.enter(NOISY, costly=False)
    waiting = asyncio.create_task(queue.enter(QUIET, costly=False))
    await passes()
    waiting.cancel()
    queue.leave(NOISY, costly=False)
    with pytest.raises(asyncio.CancelledError):
        await waiting
    assert queue.try_enter(NOISY, costly=False), "the place is free again"
