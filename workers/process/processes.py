"""What runs in each kind of worker process besides Celery."""

import os
import socket
import threading
import time
from collections import Counter
from collections.abc import Mapping
from uuid import uuid4

import structlog
from sqlalchemy.exc import DBAPIError

from app.db.fleet import jobs
from app.settings.settings import dashboard_url
from workers.delivery.sender import Sender
from workers.delivery.webhooks import Lanes
from workers.groups.coordinator import Coordinator
from workers.jobs import housekeeping
from workers.jobs.runner import LANES, JobSpec, PeriodicRunner
from workers.jobs.schedule import job_specs
from workers.lifecycle.reconciler import Reconciler
from workers.lifecycle.sweeper import Sweeper
from workers.observation import slot_labels
from workers.observation.provider_events import EventListener
from workers.runtime.database import failure_name
from workers.runtime.loop import Loop
from workers.runtime.runtime import Runtime

log = structlog.get_logger(__name__)

_MOST_THREADS = 24
_BEAT_SECONDS = 2.0
_COMPANY_SECONDS = 5.0


class ProcessThreads:
    """The threads of a process: those that work, and the company that shows that it lives and keeps its claims."""

    def __init__(self, runtime: Runtime) -> None:
        self._runtime = runtime
        self._work: list[threading.Thread] = []
        self._company: list[threading.Thread] = []
        self._stop_requested_at: float | None = None
        self._heartbeat: Heartbeat | None = None

    def request_stop(self) -> None:
        """From here on nothing new is begun. Safe in a signal handler."""
        if self._stop_requested_at is None:
            self._stop_requested_at = time.monotonic()
            self._runtime.stopping.set()
            self._runtime.nudge.set()

    def stop(self) -> None:
        """Gives the work under way as long as one provider call may take, counted from the request to stop.

        After that the process no longer counts as alive. Work that still goes on is abandoned with the process, as if it was
        killed: others take its claims over.
        """
        self.request_stop()
        settings = self._runtime.settings
        until = (self._stop_requested_at or 0.0) + settings.call_timeout + settings.connect_timeout
        for thread in self._work:
            thread.join(max(0.0, until - time.monotonic()))
        unfinished = [thread.name for thread in self._work if thread.is_alive()]
        if unfinished:
            log.warning("work abandoned", threads=unfinished)
        self._runtime.drained.set()
        for thread in self._company:
            thread.join(_COMPANY_SECONDS)
        if self._heartbeat is not None:
            self._heartbeat.end()

    def _keep_company(self, kind: str) -> None:
        """Starts what every process has beside its work: signs of life, and the renewal of its claims on jobs, until it is drained."""
        runtime = self._runtime
        self._heartbeat = Heartbeat(runtime, kind)
        self._company = [
            self._heartbeat.loop().start(),
            runtime.claim_renewer.loop(runtime.drained).start(),
            runtime.liveness.loop(runtime.drained, runtime.nudge).start(),
        ]


class WorkerThreads(ProcessThreads):
    """The threads of a worker process: sweeper, coordinator of groups, watchers, refreshers, housekeeping, sequencer, tags of batches, webhooks, heartbeat."""

    def __init__(self, runtime: Runtime) -> None:
        super().__init__(runtime)
        self.reconciler = Reconciler(runtime)
        self._sweeper = Sweeper(runtime, self.reconciler)

    def start(self) -> None:
        """Starts them all."""
        every = job_specs(self._runtime.settings)
        self._keep_company("worker")
        self._work = [
            self._sweeper.start(),
            Coordinator(self._runtime).start(),
            *_runners(self._runtime, every.watch),
            *_runners(self._runtime, every.refresh),
            PeriodicRunner(self._runtime, {**every.housekeeping, **every.notices}).start("housekeeping"),
            sequencer(self._runtime).start(),
            slot_labels.loop(self._runtime).start(),
            *_webhooks(self._runtime).start(),
            *(EventListener(self._runtime, name).start() for name in self._runtime.accounts.with_events()),
        ]

    def stop(self) -> None:
        """As the base's, after the last lease under way: each is handed over after one provider call."""
        self.request_stop()
        self._sweeper.drain()
        super().stop()


def _webhooks(runtime: Runtime) -> Lanes:
    s = runtime.settings
    sender = Sender(local=s.webhook_local, seconds=s.webhook_timeout)
    return Lanes(
        runtime.database,
        sender,
        threads=s.webhook_threads,
        stopping=runtime.stopping,
        claim_id=runtime.liveness.claim_id,
        dashboard=dashboard_url(s),
    )


class InventoryThreads(ProcessThreads):
    """The threads of an inventory process: several, so that a cloud that hangs does not hold up the others."""

    def start(self) -> None:
        """Starts them all."""
        self._keep_company("inventory")
        self._work = _runners(self._runtime, job_specs(self._runtime.settings).inventory)


def _runners(runtime: Runtime, some: Mapping[str, JobSpec]) -> list[threading.Thread]:
    """As many threads as the accounts have lanes: each has its own, whatever the others' clouds do."""
    runner = PeriodicRunner(runtime, some)
    regions = Counter(account for account, _ in runtime.accounts.places())
    lanes = sum(min(LANES, count * len(some)) for count in regions.values())
    return [runner.start(f"periodic-{number}") for number in range(min(_MOST_THREADS, max(1, lanes)))]


class Heartbeat:
    """The row that shows that this process lives. A clean stop deletes it, so a row that stays is of a lost process."""

    def __init__(self, runtime: Runtime, kind: str) -> None:
        self._runtime = runtime
        self._host = socket.gethostname()
        self._name = f"{kind}-{self._host}-{os.getpid()}-{uuid4().hex[:6]}"
        self._kind = kind

    def loop(self) -> Loop:
        """Renews the row every two seconds, until the process is drained."""
        return Loop("heartbeat", self.beat, stopping=self._runtime.drained, pause=_BEAT_SECONDS)

    def beat(self) -> None:
        """Renews the row once."""
        self._runtime.database.run(jobs.beat_at(self._host, self._name, self._kind))

    def end(self) -> None:
        """Deletes the row. Without a database it stays for a day."""
        try:
            self._runtime.database.run(jobs.forget_heartbeat(self._name))
        except DBAPIError as error:
            log.warning(failure_name(error), loop="heartbeat", error=str(error.orig))


def sequencer(runtime: Runtime) -> Loop:
    """Numbers events. Where more are left than one pass numbers, the next pass follows at once."""

    def number() -> float | None:
        return 0 if housekeeping.number_events(runtime) >= housekeeping.EVENTS else None

    return Loop("sequencer", number, stopping=runtime.stopping, pause=runtime.settings.sequencer_interval)
