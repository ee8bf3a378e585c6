"""The database and the providers with failpoints around them. Which point one is follows from who calls."""

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, TypeVar, cast

import psycopg
from sqlalchemy import Connection, Executable, Row
from sqlalchemy.exc import OperationalError

from app.db.core.prepared import Bound
from tests.failpoints.actions import Action, Arms
from tests.failpoints.points import AFTER, BEFORE, OF_VMS, Sites
from workers.providers.ports import Provider
from workers.runtime.database import WorkerDatabase

T = TypeVar("T")


class FailingDatabase(WorkerDatabase):
    """`before` is before a commit (of a single statement: before it is sent), `after` when it is done."""

    def __init__(self, url: str, *, pool_size: int, arms: Arms, sites: Sites) -> None:
        super().__init__(url, pool_size=pool_size)
        self._arms = arms
        self._sites = sites

    @contextmanager
    def begin(self) -> Iterator[Connection]:
        point = self._sites.find(sys._getframe())
        self._stall(point, BEFORE)
        with super().begin() as connection:
            yield connection
            self._reach(point, BEFORE)
        self._committed(point)

    def run(self, statement: Executable | Bound[Executable]) -> int:
        return self._around(lambda: super(FailingDatabase, self).run(statement))

    def first(self, statement: Executable | Bound[Executable]) -> Row[Any] | None:
        return self._around(lambda: super(FailingDatabase, self).first(statement))

    def all(self, statement: Executable | Bound[Executable]) -> list[Row[Any]]:
        return self._around(lambda: super(FailingDatabase, self).all(statement))

    def _around(self, act: Callable[[], T]) -> T:
        point = self._sites.find(sys._getframe())
        self._stall(point, BEFORE)
        self._reach(point, BEFORE)
        result = act()
        self._committed(point)
        return result

    def _stall(self, point: str | None, when: str) -> None:
        """Outside of any transaction, since nobody can go on with rows that are locked."""
        if point is not None:
            self._arms.stall(f"{point}:{when}")

    def _reach(self, point: str | None, when: str) -> Action | None:
        return None if point is None else self._arms.reach(f"{point}:{when}")

    def _committed(self, point: str | None) -> None:
        """A connection that is cut after the commit leaves the caller without the answer."""
        self._stall(point, AFTER)
        if self._reach(point, AFTER) is Action.POSTGRES_GONE:
            error = OperationalError("COMMIT", None, psycopg.OperationalError("the answer to the commit is lost"))
            error.connection_invalidated = True
            raise error


class FailingProvider:
    """An adapter as it is, with failpoints around its calls."""

    def __init__(self, provider: Provider, arms: Arms, sites: Sites) -> None:
        self._provider = provider
        self._arms = arms
        self._sites = sites

    @classmethod
    def over(cls, provider: Provider, arms: Arms, sites: Sites) -> Provider:
        """The same adapter to all who use it."""
        return cast(Provider, cls(provider, arms, sites))

    def __getattr__(self, name: str) -> Any:
        inner = getattr(self._provider, name)
        if name == "list":
            return self._list
        return self._around(inner) if name in OF_VMS else inner

    def _around(self, call: Callable[..., Any]) -> Callable[..., Any]:
        def act(*arguments: Any, **named: Any) -> Any:
            point = self._sites.find(sys._getframe())
            self._reach(point, BEFORE)
            result = call(*arguments, **named)
            self._reach(point, AFTER)
            return result

        return act

    def _list(self, *arguments: Any) -> Iterator[Any]:
        """Before the first page, and after the last one."""
        point = self._sites.find(sys._getframe())
        self._reach(point, BEFORE)
        yield from self._provider.list(*arguments)
        self._reach(point, AFTER)

    def _reach(self, point: str | None, when: str) -> None:
        if point is not None:
            self._arms.stall(f"{point}:{when}")
            self._arms.reach(f"{point}:{when}")
