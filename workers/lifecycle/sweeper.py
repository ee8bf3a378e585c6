"""The sweeper of a worker process: finds due leases by itself, so that no lost hint loses a lease."""

import threading
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any
from uuid import UUID

from sqlalchemy import Row

from app.db.leases import claims
from app.domain.ids import LeaseId
from workers.lifecycle.batches.cohorts import Cohort
from workers.lifecycle.reconciler import Reconciler
from workers.runtime.loop import Loop
from workers.runtime.runtime import Runtime

_COHORT_SHARE = 4
_COHORT_SECONDS = 0.02
"""How long a sweep waits for each further place, until a quarter of the threads is free."""


class Sweeper:
    """Claims due leases, as many as threads are free. They move together where they can, else each in a thread of its own."""

    def __init__(self, runtime: Runtime, reconciler: Reconciler) -> None:
        self._runtime = runtime
        self._reconciler = reconciler
        self._threads = runtime.settings.worker_threads
        self._free = threading.Semaphore(self._threads)
        self._pool = ThreadPoolExecutor(self._threads, thread_name_prefix="lease")
        self._thread: threading.Thread | None = None

    def start(self) -> threading.Thread:
        """Starts the thread; it ends soon after `runtime.stopping` is set."""
        self._thread = self.loop().start()
        return self._thread

    def loop(self) -> Loop:
        """Sweeps at each interval, or as soon as something in this process nudges."""
        runtime = self._runtime
        interval = runtime.settings.sweep_interval
        return Loop("sweeper", self._sweep_all, stopping=runtime.stopping, pause=interval, wait=self._wait)

    def _wait(self, seconds: float) -> None:
        self._runtime.nudge.wait(seconds)
        self._runtime.nudge.clear()

    def _sweep_all(self) -> None:
        while self.sweep():
            pass

    def sweep(self) -> bool:
        """Takes due leases once, unless the process stops. True: there may be more."""
        self._runtime.unreleased.release(self._runtime.database)
        room = self._take_room()
        if room == 0:
            return False
        if self._runtime.stopping.is_set():
            self._free.release(room)
            return False
        rows: list[Row[Any]] = []
        try:
            hold, number = self._runtime.settings.claim_seconds, self._runtime.liveness.number
            rows = self._runtime.database.all(claims.claim_due(room, hold, number))
        finally:
            if room > len(rows):
                self._free.release(room - len(rows))
        if rows:
            self._pool.submit(self._move_together, {LeaseId(row.id): row.claim_id for row in rows})
        return len(rows) == room

    def _take_room(self) -> int:
        """Takes every free place. Waits for the first one, and for some others: a cohort costs less than single leases."""
        if not self._free.acquire(timeout=self._runtime.settings.sweep_interval):
            return 0
        room = 1
        while room < self._threads // _COHORT_SHARE and self._free.acquire(timeout=_COHORT_SECONDS):
            room += 1
        while room < self._threads and self._free.acquire(blocking=False):
            room += 1
        return room

    def _move_together(self, claimed: Mapping[LeaseId, UUID]) -> None:
        """A lease that rests frees its place here. A lease that moves alone keeps its place until it rests."""
        resting = len(claimed)

        def move_alone(lease_id: LeaseId, claim_id: UUID) -> None:
            nonlocal resting
            resting -= 1
            try:
                self._pool.submit(self._move, lease_id, claim_id)
            except RuntimeError:  # the pool takes nothing new: the process stops
                self._move(lease_id, claim_id)

        try:
            with self._runtime.permits.working():
                Cohort(self._runtime, claimed, move_alone).move()
        finally:
            if resting:
                self._free.release(resting)

    def _move(self, lease_id: LeaseId, claim_id: UUID) -> None:
        try:
            with self._runtime.permits.working():
                self._reconciler.run(lease_id, claim_id)
        finally:
            self._free.release()

    def drain(self) -> None:
        """Waits until no lease is under way; after `runtime.stopping` that takes as long as one provider call.

        The sweeper's thread ends first: what it has claimed just now is still handed over by the pool.
        """
        if self._thread is not None:
            self._thread.join()
        self._pool.shutdown(wait=True)
