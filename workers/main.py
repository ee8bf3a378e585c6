"""What `python -m workers` does: the two kinds of worker process, and four commands."""

import os
import signal
import sys
from collections.abc import Callable
from types import FrameType

import structlog

from app.observability.traces import load_traces
from app.settings import StartupError, load_settings
from app.settings.memory import settle_memory
from workers import check_accounts, deadman, price_commands
from workers.bootstrap import build_runtime
from workers.celery_app import HintConsumer, create_celery
from workers.invoices import command as invoice_command
from workers.metrics import serve_metrics
from workers.processes import InventoryThreads, WorkerThreads
from workers.runtime import Runtime

log = structlog.get_logger("workers")

_NICE = 10
"""Of the inventory: reading long listings must not keep launches waiting on a host where both run."""
_USAGE = "usage: python -m workers worker|inventory|check|deadman|prices|reconcile"


def main(arguments: list[str]) -> int:
    """Runs until a signal; 0 after SIGTERM or SIGINT, 2 with one line on stderr when it cannot start."""
    commands = {
        "check": check_accounts.main,
        "deadman": deadman.main,
        "prices": price_commands.main,
        "reconcile": invoice_command.main,
    }
    if arguments[:1] and arguments[0] in commands:
        return commands[arguments[0]](arguments[1:])
    if arguments not in (["worker"], ["inventory"]):
        sys.stderr.write(_USAGE + "\n")
        return 2
    try:
        runtime = build_runtime(load_settings(), traces=load_traces(f"gpulease-{arguments[0]}"))
        serve_metrics(runtime.settings, runtime.metrics)
    except StartupError as error:
        sys.stderr.write(f"gpulease {arguments[0]}: {error}\n")
        return 2
    if os.geteuid() == 0:
        log.warning("running as root", advice="run this process as a user without privileges")
    settle_memory()
    run = _worker if arguments == ["worker"] else _inventory
    run(runtime)
    return 0


def _worker(runtime: Runtime) -> None:
    threads = WorkerThreads(runtime)
    consumer = HintConsumer(
        create_celery(runtime.settings, threads.reconciler, runtime.permits), runtime.settings.worker_threads
    )
    _on_signal(threads.request_stop, consumer.request_stop)
    threads.start()
    log.info("worker started", installation=runtime.installation.id)
    try:
        consumer.start()
        log.info("worker stopping", code=consumer.exitcode)
    finally:
        threads.stop()
        runtime.database.close()
    log.info("worker stopped")


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
