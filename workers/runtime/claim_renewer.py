"""Keeps the claims of what is running in this process: a claim may be short, and work may still be long."""

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from sqlalchemy import Executable

from workers.runtime.database import WorkerDatabase
from workers.runtime.loop import Loop

_EVERY_SECONDS = 2.0


class ClaimRenewer:
    """Statements that one thread repeats while their work goes on."""

    def __init__(self, database: WorkerDatabase) -> None:
        self._database = database
        self._lock = threading.Lock()
        self._running: set[Callable[[], Executable]] = set()

    @contextmanager
    def renewing(self, statement: Callable[[], Executable]) -> Iterator[None]:
        """Repeats the statement for as long as the block runs."""
        with self._lock:
            self._running.add(statement)
        try:
            yield
        finally:
            with self._lock:
                self._running.discard(statement)

    def loop(self, stopping: threading.Event) -> Loop:
        """Until the process stops. While the database is away claims may run out: another process goes on then."""
        return Loop("claim renewer", self._renew, stopping=stopping, pause=_EVERY_SECONDS)

    def _renew(self) -> None:
        with self._lock:
            due = list(self._running)
        for statement in due:
            self._database.run(statement())
