"""Early notices to workers that a lease has work. A lost hint costs one sweep interval, nothing else.

A request only puts the id into a bounded queue. One daemon thread sends hints, and drops them while Redis is
unreachable.
"""

import queue
import threading
import time
from collections.abc import Callable

import structlog
from celery import Celery

from app.domain.ids import LeaseId
from app.observability.metrics import ApiMetrics
from app.settings.broker import HINT_SECONDS, STEP_TASK, celery_broker_options

_LONGEST_QUEUE = 2_000
_PAUSE_SECONDS = 1.0
_MOST_AT_ONCE = 5
_MOST_A_SECOND = 2
"""A message costs both sides more CPU than a sweep, which takes many leases at once. In a burst, the sweep is therefore
the better hint."""

_log = structlog.get_logger("gpulease.hints")

Send = Callable[[LeaseId], None]


def celery_sender(broker_url: str) -> Send:
    """A function that sends one hint. It raises when Redis is unreachable, within the socket time-outs."""
    celery = Celery("gpulease-api", set_as_current=False)
    celery.conf.update(celery_broker_options(broker_url))

    def send(lease_id: LeaseId) -> None:
        celery.send_task(STEP_TASK, args=[lease_id], expires=HINT_SECONDS, ignore_result=True, retry=False)

    return send


class QueuedHints:
    """`wake` never blocks and never fails. The thread of this object calls `send`, between `start` and `stop`."""

    def __init__(self, send: Send, metrics: ApiMetrics, clock: Callable[[], float] = time.monotonic) -> None:
        self._send = send
        self._metrics = metrics
        self._clock = clock
        self._queue: queue.Queue[LeaseId | None] = queue.Queue(_LONGEST_QUEUE)
        self._silent_until = 0.0
        self._allowed = float(_MOST_AT_ONCE)
        self._counted_at = clock()
        self._thread = threading.Thread(target=self._run, name="hints", daemon=True)

    def wake(self, lease_id: LeaseId) -> None:
        """See `app.services.context.Hints`."""
        try:
            self._queue.put_nowait(lease_id)
        except queue.Full:
            self._metrics.hint("dropped")

    def start(self) -> None:
        """Starts the thread that sends hints."""
        self._thread.start()

    def stop(self, seconds: float = 3.0) -> None:
        """Sends the queued hints, for `seconds` at most."""
        try:
            self._queue.put(None, timeout=seconds)
        except queue.Full:
            return
        self._thread.join(seconds)

    def _run(self) -> None:
        while (lease_id := self._queue.get()) is not None:
            self._metrics.hint(self._outcome(lease_id))

    def _outcome(self, lease_id: LeaseId) -> str:
        if self._crowded():
            return "spared"
        return "sent" if self._try(lease_id) else "dropped"

    def _crowded(self) -> bool:
        """Whether the hints so far have used up what time allows. If not, this one counts."""
        now = self._clock()
        self._allowed = min(_MOST_AT_ONCE, self._allowed + (now - self._counted_at) * _MOST_A_SECOND)
        self._counted_at = now
        crowded = self._allowed < 1
        if not crowded:
            self._allowed -= 1
        return crowded

    def _try(self, lease_id: LeaseId) -> bool:
        """Drops all hints for a second after a failure: a time-out for each hint would only fill the queue."""
        if self._clock() < self._silent_until:
            return False
        try:
            self._send(lease_id)
        except Exception as error:  # noqa: BLE001 - the outermost loop of this thread: a hint is never worth a crash
            _log.warning("hints dropped", error=type(error).__name__)
            self._silent_until = self._clock() + _PAUSE_SECONDS
            return False
        return True
