"""The Celery application of the worker processes. Messages are hints: losing all of them costs a sweep interval."""

from celery import Celery
from celery.signals import setup_logging

from app.domain.ids import LeaseId
from app.settings import Settings
from app.settings.broker import STEP_TASK, celery_broker_options
from workers.reconciler import Reconciler


def create_celery(settings: Settings, reconciler: Reconciler) -> Celery:
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
    bind_tasks(celery, reconciler)
    return celery


def bind_tasks(celery: Celery, reconciler: Reconciler) -> None:
    """Registers `workers.step_lease`: one call."""

    @celery.task(name=STEP_TASK)
    def step_lease(lease_id: str) -> None:
        reconciler.run_hinted(LeaseId(lease_id))


@setup_logging.connect
def _keep_our_logging(**_: object) -> None:
    """Connecting this signal makes Celery leave logging alone."""
