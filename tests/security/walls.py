"""The two walls between tenants, each taken down in turn."""

import os
import re
import secrets
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import psycopg
import pytest
from psycopg import sql
from sqlalchemy import event
from sqlalchemy.ext.asyncio import AsyncConnection

from app.db.core import engine
from app.db.core.connections import API_ROLE
from app.db.core.engine import ApiDatabase

_VALUE = r'\$\d+::VARCHAR(?: COLLATE "C")?'
_FILTER = re.compile(
    rf"(?P<table>\w+)\.tenant_id = (?P<value>{_VALUE})|(?P<first>tenant\.id = {_VALUE}) AND tenant\.id = (?P<asking>{_VALUE})"
)


class _Driver:
    """The driver's connection, whose `fetch` sends what `without` makes of a statement."""

    def __init__(self, raw: Any, without: Callable[[str], str]) -> None:
        self._raw = raw
        self._without = without

    async def fetch(self, statement: str, *arguments: Any) -> Any:
        return await self._raw.fetch(self._without(statement), *arguments)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._raw, name)


class WithoutFilter(ApiDatabase):
    """Sends the application's statements without their own conditions on the tenant. Row-level security stands."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.opened: set[str] = set()
        event.listen(self._engine.sync_engine, "before_cursor_execute", self._rewritten, retval=True)

    def rewrite_transactions(self, patch: pytest.MonkeyPatch) -> None:
        """Statements that are compiled at import lack their conditions within transactions as well."""
        driver_connection = engine._driver_connection

        async def rewriting(connection: AsyncConnection) -> Any:
            return _Driver(await driver_connection(connection), self._without)

        patch.setattr(engine, "_driver_connection", rewriting)

    async def _fetch(self, sql: str, arguments: Any) -> list[dict[str, Any]]:
        return await super()._fetch(self._without(sql), arguments)

    def _rewritten(self, _connection: Any, _cursor: Any, statement: str, parameters: Any, *_: Any) -> tuple[str, Any]:
        return self._without(statement), parameters

    def _without(self, statement: str) -> str:
        return _FILTER.sub(self._always_true, statement)

    def _always_true(self, found: re.Match[str]) -> str:
        """The parameter is still mentioned, since it is still sent."""
        self.opened.add(found["table"] or "tenant")
        if found["first"]:
            return f"{found['first']} AND ({found['asking']}) IS NOT NULL"
        return f"({found['value']}) IS NOT NULL"


@contextmanager
def role_past_row_level_security(admin_url: str, database_url: str) -> Iterator[str]:
    """The name of a role with all rights of the API's, for which no policy counts."""
    login = psycopg.conninfo.conninfo_to_dict(database_url)["user"]
    name = f"gpulease_past_the_wall_{os.getpid()}_{secrets.token_hex(3)}"
    with psycopg.connect(admin_url, autocommit=True) as admin:
        for statement in ("CREATE ROLE {0} BYPASSRLS", "GRANT {1} TO {0}", "GRANT {0} TO {2}"):
            names = (sql.Identifier(one) for one in (name, API_ROLE, str(login)))
            admin.execute(sql.SQL(statement).format(*names))
        yield name
        admin.execute(sql.SQL("DROP ROLE {}").format(sql.Identifier(name)))
