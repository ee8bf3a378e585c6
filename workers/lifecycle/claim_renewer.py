"""Keeps the claims of what is running in this process: a claim may be short, and work may still be long."""

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import structlog
from sqlalchemy import Executable
from sqlalchemy.exc import DBAPIError

from workers.database import WorkerDatabase

log = structlog.get_logger(__name__)

_EVERY_SECONDS = 2.0


class Renewals:
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

    def loop(self, stopping: threading.Event) -> None:
        """Until the process stops. While the database is away claims may run out: another process goes on then."""
        while not stopping.wait(_EVERY_SECONDS):
            with self._lock:
                due = list(self._running)
            try:
                for statement in due:
                    self._database.run(statement())
            except DBAPIError as error:
                log.warning("claims not renewed", error=str(error.orig))
            except Exception:
                log.exception("renewing claims failed")
