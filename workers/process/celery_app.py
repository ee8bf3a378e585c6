"""The Celery application of the worker processes. Messages are hints: losing all of them costs a sweep interval."""

import threading
import time
from typing import Any

import structlog
from celery import Celery
from celery.app import trace
from celery.platforms import EX_OK
from celery.worker import WorkController, state
from celery.worker.consumer import Consumer
from kombu import Connection
from kombu.asynchronous import Hub, set_event_loop
from redis.exceptions import RedisError

from app.domain.ids import LeaseId
from app.settings import Settings
from app.settings.broker import STEP_TASK, celery_broker_options
from workers.lifecycle.reconciler import Reconciler
from workers.runtime.permits import Permits

log = structlog.get_logger("workers")

RECONNECT_SECONDS = 3
"""Between a failure of Redis and the next try to connect, however long Redis has been away."""
_STOP_SECONDS = 0.2
"""Within them a consumer that waits notices that it has to stop."""


def create_celery(settings: Settings, reconciler: Reconciler, permits: Permits) -> Celery:
    """An application with the one task, bound to this process's reconciler."""
    celery = Celery("gpulease", set_as_current=False)
    celery.conf.update(
        celery_broker_options(settings.broker_url),
        task_acks_late=True,
        worker_prefetch_multiplier=1,
        worker_enable_remote_control=False,
        worker_send_task_events=False,
        worker_hijack_root_logger=False,
        broker_connection_retry=True,
        broker_channel_error_retry=True,
        broker_connection_max_retries=None,
    )
    bind_tasks(celery, reconciler, permits)
    return celery


def bind_tasks(celery: Celery, reconciler: Reconciler, permits: Permits) -> None:
    """Registers `workers.step_lease`: one call."""

    @celery.task(name=STEP_TASK, shared=False)
    def step_lease(lease_id: str) -> None:
        with permits.working():
            reconciler.run_hinted(LeaseId(lease_id))


class PatientConsumer(Consumer):
    """Whatever Redis answers, an error of the connection or an error reply, is "Redis is away": it waits and connects anew."""

    def __init__(self, *args: Any, hub: Hub, **kwargs: Any) -> None:
        super().__init__(*args, hub=hub, **kwargs)
        self._loop = hub
        # Celery logs and forgets a connection error of an acknowledgement. The hint would count as under way for ever,
        # and after a few of them nothing more would be received. As a channel error it leads to a new connection.
        self.channel_errors = (*self.connection_errors, *self.channel_errors, RedisError)
        self.connection_errors: tuple[type[Exception], ...] = ()
        self._never = threading.Event()

    def ensure_connected(self, conn: Connection) -> Connection:
        """As Celery's, without its pause that grows to half a minute."""

        def say(error: Exception, _seconds: float) -> None:
            log.warning("Redis is away", error=_named(error))

        return conn.ensure_connection(
            say,
            interval_start=RECONNECT_SECONDS,
            interval_step=0,
            interval_max=RECONNECT_SECONDS,
            callback=state.maybe_shutdown,
        )

    def on_connection_error_after_connected(self, exc: Exception) -> None:
        """As Celery's, and waits: Redis may answer PING and refuse everything else."""
        super().on_connection_error_after_connected(exc)
        self._wait(exc)

    def on_connection_error_before_connected(self, exc: Exception) -> None:
        """Waits as well."""
        self._wait(exc)

    def _wait(self, error: Exception) -> None:
        log.warning("Redis is away", error=_named(error))
        # each connection adds a callback for every turn of the loop, which would keep it for ever
        self._loop.on_tick.clear()
        until = time.monotonic() + RECONNECT_SECONDS
        while (left := until - time.monotonic()) > 0:
            state.maybe_shutdown()
            self._never.wait(min(left, _STOP_SECONDS))


def _named(error: Exception) -> str:
    return f"{type(error).__name__}: {error}"


class HintConsumer(WorkController):
    """Receives hints in the main thread and runs them in `threads` threads.

    It derives from Celery's embeddable worker, not from Celery's worker program. The program installs signal handlers,
    prints plain text between log lines, and takes a user id without an entry in /etc/passwd for root.
    """

    def __init__(self, celery: Celery, threads: int) -> None:
        # the loop of an earlier consumer of this process has ended, and its timers with it
        set_event_loop(None)
        super().__init__(
            app=celery,
            consumer_cls=PatientConsumer,
            pool_cls="threads",
            concurrency=threads,
            loglevel="WARNING",
            without_gossip=True,
            without_mingle=True,
            without_heartbeat=True,
        )

    def on_init_blueprint(self) -> None:
        """Celery calls this before it assembles its parts. Tasks run on its fast path, as in the worker program."""
        trace.setup_worker_optimizations(self.app)

    @staticmethod
    def request_stop() -> None:
        """Makes `start` return after the tasks under way. Safe in a signal handler."""
        state.should_stop = EX_OK  # pyrefly: ignore[bad-assignment]  # the stubs know its first value alone
