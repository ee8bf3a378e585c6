"""The Celery application of the worker processes. Messages are hints: losing all of them costs a sweep interval."""

from celery import Celery
from celery.app import trace
from celery.platforms import EX_OK
from celery.worker import WorkController, state

from app.domain.ids import LeaseId
from app.settings import Settings
from app.settings.broker import STEP_TASK, celery_broker_options
from workers.lifecycle.reconciler import Reconciler
from workers.permits import Permits


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
        broker_connection_max_retries=None,
    )
    bind_tasks(celery, reconciler, permits)
    return celery


def bind_tasks(celery: Celery, reconciler: Reconciler, permits: Permits) -> None:
    """Registers `workers.step_lease`: one call."""

    @celery.task(name=STEP_TASK)
    def step_lease(lease_id: str) -> None:
        with permits.working():
            reconciler.run_hinted(LeaseId(lease_id))


class HintConsumer(WorkController):
    """Receives hints in the main thread and runs them in `threads` threads.

    It derives from Celery's embeddable worker, not from Celery's worker program. The program installs signal handlers,
    prints plain text between log lines, and takes a user id without an entry in /etc/passwd for root.
    """

    def __init__(self, celery: Celery, threads: int) -> None:
        super().__init__(
            app=celery,
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

    def request_stop(self) -> None:
        """Makes `start` return after the tasks under way. Safe in a signal handler."""
        state.should_stop = EX_OK  # pyrefly: ignore[bad-assignment]  # the stubs know its first value alone
