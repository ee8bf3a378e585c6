"""Runs a worker or an inventory until a signal."""

import os
import signal
import threading
from collections.abc import Callable
from types import FrameType

import structlog
from celery import Celery

from app.observability.traces import load_traces
from app.settings import Settings
from app.settings.memory import settle_memory
from workers.process.bootstrap import build_runtime
from workers.process.celery_app import RECONNECT_SECONDS, HintConsumer, create_celery
from workers.process.processes import InventoryThreads, WorkerThreads
from workers.runtime.metrics import serve_metrics
from workers.runtime.runtime import Runtime

log = structlog.get_logger("workers")

_NICE = 10
"""Of the inventory: reading long listings must not keep launches waiting on a host where both run."""


def run(kind: str, settings: Settings, *, build: Callable[..., Runtime] = build_runtime) -> None:
    """`kind`: worker or inventory. Raises StartupError when it cannot start."""
    runtime = build(settings, traces=load_traces(f"gpulease-{kind}"))
    serve_metrics(settings, runtime.metrics)
    if os.geteuid() == 0:
        log.warning("running as root", advice="run this process as a user without privileges")
    settle_memory()
    if kind == "worker":
        _worker(runtime)
    else:
        _inventory(runtime)


def _worker(runtime: Runtime) -> None:
    threads = WorkerThreads(runtime)
    celery = create_celery(runtime.settings, threads.reconciler, runtime.permits)
    _on_signal(threads.request_stop, HintConsumer.request_stop)
    threads.start()
    log.info("worker started", installation=runtime.installation.id)
    try:
        receive_hints(celery, runtime.settings.worker_threads, runtime.stopping)
        log.info("worker stopping")
    finally:
        threads.stop()
        runtime.database.close()
    log.info("worker stopped")


def receive_hints(celery: Celery, threads: int, stopping: threading.Event) -> None:
    """Until `stopping` and the consumer's request to stop. A consumer that ends before is followed by another one."""
    while not stopping.is_set():
        consumer = HintConsumer(celery, threads)
        consumer.start()
        if not stopping.is_set():
            log.error("the consumer of hints ended", code=consumer.exitcode)
            stopping.wait(RECONNECT_SECONDS)


def _inventory(runtime: Runtime) -> None:
    os.nice(_NICE)
    threads = InventoryThreads(runtime)
    _on_signal(threads.request_stop)
    threads.start()
    log.info("inventory started", installation=runtime.installation.id)
    runtime.stopping.wait()
    threads.stop()
    runtime.database.close()
    log.info("inventory stopped")


def _on_signal(*requests: Callable[[], None]) -> None:
    """Makes these requests at SIGTERM and SIGINT."""

    def stop(_number: int, _frame: FrameType | None) -> None:
        for request in requests:
            request()

    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, stop)
