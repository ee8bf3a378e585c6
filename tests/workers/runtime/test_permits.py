"""Few threads move leases at a time, and a call to a cloud keeps none of the others from it."""

import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from workers.runtime.permits import Permits, without_permit


def most_at_a_time(permits: Permits) -> int:
    """How many of eight threads work at the same time."""
    lock, now, most = threading.Lock(), 0, 0

    def work() -> None:
        nonlocal now, most
        with permits.working():
            with lock:
                now += 1
                most = max(most, now)
            threading.Event().wait(0.02)
            with lock:
                now -= 1

    with ThreadPoolExecutor(8) as pool:
        for _ in range(8):
            pool.submit(work)
    return most


def test_as_many_threads_work_as_there_are_permits() -> None:
    assert most_at_a_time(Permits(2)) == 2


def test_a_thread_that_waits_for_a_cloud_leaves_its_permit_to_another() -> None:
    permits, called, answered = Permits(1), threading.Event(), threading.Event()

    def calling() -> None:
        with permits.working(), without_permit():
            called.set()
            assert answered.wait(10)

    thread = threading.Thread(target=calling)
    thread.start()
    assert called.wait(10)
    with permits.working():
        answered.set()
    thread.join(10)
    assert not thread.is_alive()


def test_a_permit_comes_back_after_a_failed_call() -> None:
    permits = Permits(1)
    for _ in range(3):
        with pytest.raises(OSError, match="no route"), permits.working(), without_permit():
            raise OSError("no route")
    with permits.working():
        pass


def test_a_thread_that_works_already_takes_no_second_permit() -> None:
    permits, done = Permits(1), threading.Event()

    def work() -> None:
        with permits.working(), permits.working():
            with without_permit():
                pass
            done.set()

    threading.Thread(target=work, daemon=True).start()
    assert done.wait(10)
    assert most_at_a_time(permits) == 1


def test_a_call_within_a_call_returns_no_second_permit() -> None:
    permits = Permits(1)
    with permits.working(), without_permit(), without_permit():
        assert most_at_a_time(permits) == 1


def test_a_thread_without_a_permit_calls_as_ever() -> None:
    with without_permit():
        pass
