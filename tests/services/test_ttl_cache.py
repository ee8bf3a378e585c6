"""What is read once for everybody: concurrent askers share a reading, and a failure is not kept."""

import asyncio

import pytest

from app.services.ttl_cache import TtlCache


async def test_those_who_ask_meanwhile_wait_for_one_reading() -> None:
    begun, go_on = [], asyncio.Event()

    async def read() -> int:
        begun.append(1)
        await go_on.wait()
        return len(begun)

    kept = TtlCache(read, 3600)
    askers = [asyncio.create_task(kept.get()) for _ in range(3)]
    await asyncio.sleep(0)
    go_on.set()
    assert await asyncio.gather(*askers) == [1, 1, 1]
    assert await kept.get() == 1


async def test_without_time_each_is_read_anew_and_a_failure_is_forgotten() -> None:
    answers = iter([1, None, 2])

    async def read() -> int:
        answer = next(answers)
        if answer is None:
            raise ConnectionError
        return answer

    kept = TtlCache(read, 0)
    assert await kept.get() == 1
    with pytest.raises(ConnectionError):
        await kept.get()
    assert await kept.get() == 2


async def test_what_is_forgotten_is_read_anew_also_by_who_asked_during_a_reading() -> None:
    begun, go_on = [], asyncio.Event()

    async def read() -> int:
        begun.append(1)
        answer = len(begun)
        await go_on.wait()
        return answer

    kept = TtlCache(read, 3600)
    before = asyncio.create_task(kept.get())
    await asyncio.sleep(0)
    kept.forget()
    after = asyncio.create_task(kept.get())
    go_on.set()
    assert await asyncio.gather(before, after) == [1, 2]
    assert await kept.get() == 2
    kept.forget()
    assert await kept.get() == 3
