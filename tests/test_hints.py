"""Hints: quick or lost, never in the way."""

import threading

import pytest
import redis

from app.domain.ids import LeaseId
from app.hints import QueuedHints, celery_sender
from app.local.ports import free_port
from app.local.waiting import wait_until
from app.observability.metrics import ApiMetrics
from app.settings.broker import QUEUE, STEP_TASK

LEASE = LeaseId("lease_01jz0000000000000000000000")


class Recorder:
    """Sends nothing; `fails` is how often it raises first."""

    def __init__(self, *, fails: int = 0) -> None:
        self.sent: list[LeaseId] = []
        self.fails = fails

    def __call__(self, lease_id: LeaseId) -> None:
        if self.fails:
            self.fails -= 1
            raise ConnectionRefusedError
        self.sent.append(lease_id)


class Blocked:
    """Hangs until released."""

    def __init__(self) -> None:
        self.release = threading.Event()

    def __call__(self, lease_id: LeaseId) -> None:
        self.release.wait(30)


@pytest.fixture
def metrics() -> ApiMetrics:
    return ApiMetrics()


def count(metrics: ApiMetrics, outcome: str) -> float:
    return metrics.registry.get_sample_value("gpulease_hints_total", {"outcome": outcome}) or 0.0


def test_each_outcome_is_counted_from_0(metrics: ApiMetrics) -> None:
    """The first hint that is dropped is a rise, as Prometheus sees it."""
    outcomes = ("sent", "spared", "dropped")
    counts = [metrics.registry.get_sample_value("gpulease_hints_total", {"outcome": outcome}) for outcome in outcomes]
    assert counts == [0, 0, 0]


def test_what_is_queued_is_sent_before_the_end(metrics: ApiMetrics) -> None:
    send = Recorder()
    hints = QueuedHints(send, metrics)
    for _ in range(3):
        hints.wake(LEASE)
    hints.start()
    hints.stop()
    assert send.sent == [LEASE] * 3
    assert count(metrics, "sent") == 3


def test_after_a_failure_hints_are_dropped_for_a_while_and_then_sent_again(metrics: ApiMetrics) -> None:
    now = [100.0]
    send = Recorder(fails=1)
    hints = QueuedHints(send, metrics, clock=lambda: now[0])
    hints.start()
    for _ in range(2):
        hints.wake(LEASE)
    assert wait_until(lambda: count(metrics, "dropped") == 2, timeout=10)
    now[0] += 2
    hints.wake(LEASE)
    hints.stop()
    assert send.sent == [LEASE]


def test_in_a_burst_most_hints_are_spared(metrics: ApiMetrics) -> None:
    now = [100.0]
    send = Recorder()
    hints = QueuedHints(send, metrics, clock=lambda: now[0])
    for _ in range(30):
        hints.wake(LEASE)
    hints.start()
    assert wait_until(lambda: count(metrics, "spared") == 25, timeout=10)
    now[0] += 1
    for _ in range(3):
        hints.wake(LEASE)
    hints.stop()
    assert (count(metrics, "sent"), len(send.sent), count(metrics, "spared")) == (7, 7, 26)


def test_waking_never_blocks(metrics: ApiMetrics) -> None:
    send = Blocked()
    hints = QueuedHints(send, metrics)
    hints.start()
    for _ in range(5_000):
        hints.wake(LEASE)
    assert count(metrics, "dropped") >= 2_000
    send.release.set()
    hints.stop()


def test_a_hint_is_a_short_lived_celery_message(broker_url: str) -> None:
    celery_sender(broker_url)(LEASE)
    with redis.Redis.from_url(broker_url, decode_responses=True) as client:
        [message] = client.lrange(QUEUE, 0, -1)
    assert isinstance(message, str)
    assert STEP_TASK in message
    assert '"expires"' in message


def test_a_broker_that_is_away_raises_at_once_for_the_thread_to_drop() -> None:
    send = celery_sender(f"redis://127.0.0.1:{free_port()}/0")
    with pytest.raises(Exception, match="refused"):
        send(LEASE)
