"""Redis that answers with an error is away: the consumer of hints connects again, and its process goes on."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import cycle
from pathlib import Path

import pytest
import redis
from celery.worker import state
from kombu import Connection

from app.domain.ids import LeaseId
from app.hints import Send, celery_sender
from app.local.waiting import wait_until
from app.settings.broker import QUEUE, SOCKET_SECONDS
from tests.harness import redis_proxy
from tests.harness.cached_settings import read_settings
from tests.harness.forks import ForkServer
from tests.harness.redis_proxy import GARBAGE, REPLIES, RESET, Proxy
from tests.workers.fleet import Fleet
from tests.workers.virtual_time import RealTime, VirtualTime
from tests.workers.worker_process import PATIENCE, running
from workers.process import celery_app
from workers.process import running as process
from workers.process.celery_app import RECONNECT_SECONDS, HintConsumer, create_celery
from workers.runtime.permits import Permits

LEASE = LeaseId("lease_01jz0000000000000000000000")
WORKER = {
    *("HELLO", "CLIENT", "PING", "SADD", "LLEN", "BRPOP", "SET", "ZRANGE"),
    *("MULTI", "ZADD", "HSET", "ZREM", "HDEL", "EXEC", "LPUSH"),
}
"""Of a consumer and a sender of hints."""
RARE = {"SCRIPT", "EVALSHA", "DEL", "ZREVRANGEBYSCORE", "HGET", "UNWATCH", "WATCH", "PTTL"}
"""Sent when a connection is new to a server, or after a lost hint."""
THREADS = 2

pytestmark = pytest.mark.filterwarnings("ignore::PendingDeprecationWarning")


class Recorder:
    """In place of a reconciler."""

    def __init__(self) -> None:
        self.hinted: list[LeaseId] = []

    def run_hinted(self, lease_id: LeaseId) -> bool:
        self.hinted.append(lease_id)
        return True


@pytest.fixture
def virtual_time() -> VirtualTime:
    """Other processes run meanwhile."""
    return RealTime()


@pytest.fixture
def proxy(broker_url: str) -> Iterator[Proxy]:
    with redis_proxy.running(broker_url) as made:
        yield made


@contextmanager
def receiving(broker_url: str, recorder: Recorder) -> Iterator[threading.Thread]:
    """A consumer in a thread."""
    celery = create_celery(read_settings(broker_url=broker_url), recorder, Permits())  # pyrefly: ignore[bad-argument-type]
    consumer = HintConsumer(celery, THREADS)
    thread = threading.Thread(target=consumer.start, daemon=True)
    thread.start()
    try:
        yield thread
    finally:
        consumer.request_stop()
        thread.join(15)
        state.should_stop = None
    assert not thread.is_alive()


def attempt(send: Send) -> None:
    """A hint, or none, as the API does it."""
    try:
        send(LEASE)
    except Exception:  # noqa: BLE001 - the API drops the hint, whatever it is
        return


def arrives(send: Send, recorder: Recorder) -> bool:
    """Whether more hints than the consumer may have under way are received soon."""
    wanted = len(recorder.hinted) + 2 * THREADS

    def received() -> bool:
        attempt(send)
        return len(recorder.hinted) >= wanted

    return wait_until(received, timeout=10, poll=0.02)


def every_pair() -> list[tuple[str, str]]:
    """Each error reply at several commands, and each command with several replies."""
    replies = cycle((*REPLIES, GARBAGE, RESET))
    return [(next(replies), command) for command in sorted(WORKER) for _ in range(2)]


def test_whatever_redis_answers_the_consumer_receives_hints_afterwards(
    proxy: Proxy, kept_redis: redis.Redis, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One consumer, one sender: an error reply at each command that they send, in turn."""
    monkeypatch.setattr(celery_app, "RECONNECT_SECONDS", 0.02)
    recorder, send = Recorder(), celery_sender(proxy.url)
    with receiving(proxy.url, recorder) as thread:
        assert arrives(send, recorder)
        assert wait_until(lambda: proxy.seen >= WORKER, timeout=10)
        assert proxy.seen - RARE == WORKER
        for reply, command in every_pair():
            proxy.refuse(reply, command)
            proxy.drop()
            # a consumer that was cut off holds this lock for five minutes, and nobody restores messages meanwhile
            kept_redis.delete("unacked_mutex")

            def refused() -> bool:
                attempt(send)
                return proxy.refused > THREADS

            assert wait_until(refused, timeout=PATIENCE, poll=0.05), (reply, command)
            proxy.relent()
            assert arrives(send, recorder), (reply, command)
            assert thread.is_alive()


def test_redis_that_refuses_is_asked_again_after_a_pause(proxy: Proxy, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(celery_app, "RECONNECT_SECONDS", 0.5)
    proxy.refuse("OOM", "SADD")
    with receiving(proxy.url, Recorder()):
        assert wait_until(lambda: proxy.refused == 4, timeout=10, poll=0.02)
        proxy.refuse("OOM", "SADD")
        assert not wait_until(lambda: proxy.refused > 4, timeout=1.4, poll=0.02)


def test_redis_is_asked_again_within_ten_seconds_however_long_it_was_away() -> None:
    """The pause, and the time-out of a try that began before Redis was back."""
    assert RECONNECT_SECONDS + 2 * SOCKET_SECONDS < 10


@pytest.mark.filterwarnings("ignore::ResourceWarning")
def test_a_worker_process_goes_on_without_its_consumer(
    fleet: Fleet, proxy: Proxy, tmp_path: Path, forks: ForkServer
) -> None:
    """Redis answers PING and refuses the rest. The process's own sweeper launches, and hints arrive later."""
    proxy.refuse("READONLY", "BRPOP")
    with running(fleet, tmp_path, forks=forks, GPULEASE_BROKER_URL=proxy.url) as worker:
        assert wait_until(lambda: proxy.refused > 0, timeout=PATIENCE)
        lease_id = fleet.create()
        assert wait_until(lambda: fleet.lease(lease_id).state == "active", timeout=PATIENCE)
        proxy.relent()
        assert wait_until(lambda: _waits_for_hints(proxy), timeout=10)
        assert worker.stop() < PATIENCE / 2
        assert worker.child.returncode == 0
        assert len(worker.events("worker started")) == 1


def _waits_for_hints(proxy: Proxy) -> bool:
    """Whether the worker's queue is empty again, after a hint that nobody but it can take."""
    with redis.Redis.from_url(proxy.url) as client:
        attempt(celery_sender(proxy.url))
        return wait_until(lambda: client.llen(QUEUE) == 0, timeout=1)


def test_a_consumer_that_ends_is_followed_by_another_one(proxy: Proxy, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever ends it: here an error that has nothing to do with Redis."""
    monkeypatch.setattr(process, "RECONNECT_SECONDS", 0.02)
    recorder, faults = Recorder(), [ArithmeticError("a bug"), ArithmeticError("another one")]
    as_ever = celery_app.PatientConsumer.ensure_connected

    def break_off(consumer: celery_app.PatientConsumer, connection: Connection) -> Connection:
        if faults:
            raise faults.pop()
        return as_ever(consumer, connection)

    monkeypatch.setattr(celery_app.PatientConsumer, "ensure_connected", break_off)
    settings = read_settings(broker_url=proxy.url)
    celery = create_celery(settings, recorder, Permits())  # pyrefly: ignore[bad-argument-type]
    stopping = threading.Event()
    thread = threading.Thread(target=process.receive_hints, args=(celery, THREADS, stopping), daemon=True)
    thread.start()
    try:
        assert arrives(celery_sender(proxy.url), recorder)
        assert not faults
    finally:
        stopping.set()
        HintConsumer.request_stop()
        thread.join(15)
        state.should_stop = None
    assert not thread.is_alive()
