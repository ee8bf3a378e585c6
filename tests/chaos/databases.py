"""The database of a stack loses commits: a standby that misses the newest ones is promoted, or a dump is restored."""

import os
import signal
import subprocess
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path

import psycopg
from psycopg import sql

from app.local.embedded_postgres import DATABASE, OWNER, answers, program, running
from app.local.ports import free_port
from app.local.programs import API, INVENTORY, WORKER, python
from app.local.waiting import wait_until
from tests.e2e.stack import PATIENCE, Stack
from tests.harness.databases import ROOT
from tests.harness.standby import copy, cut_off, promote, wait_until_replayed


class Standby:
    """A streaming standby of the stack's server, to be promoted once."""

    def __init__(self, stack: Stack, number: int) -> None:
        """Copies the primary and starts to follow it; a primary that starts anew is waited for."""
        _wait_for(stack)
        self._stack = stack
        self._number = number
        self._cluster = replace(
            stack.cluster, data_dir=stack.home.postgres.with_name(f"standby-{number}"), port=free_port()
        )
        self._server = ExitStack()
        copy(stack.cluster, self._cluster.data_dir)
        self._server.enter_context(running(self._cluster))
        wait_until_replayed(stack.cluster, self._cluster)

    def miss(self) -> None:
        """What is committed from now on is lost with the primary."""
        cut_off(self._cluster)

    def take_over(self) -> None:
        """The primary is killed, and the standby promoted at its address: a server in recovery answers there first."""
        stack = self._stack
        self._server.close()
        lost = stack.home.postgres.with_name(f"lost-{self._number}")
        stack.home.postgres.rename(lost)
        self._cluster.data_dir.rename(stack.home.postgres)
        assert stack.signal("postgres", signal.SIGQUIT) is not None, "no primary runs"
        assert wait_until(lambda: answers(stack.cluster.admin_url), timeout=PATIENCE), "the standby does not start"
        promote(stack.cluster)

    def close(self) -> None:
        """Ends the standby's own server, if it still runs."""
        self._server.close()


class Backup:
    """A dump of the stack's database."""

    def __init__(self, stack: Stack, number: int) -> None:
        """Dumps the database while it is in use; a server that starts anew is waited for."""
        _wait_for(stack)
        self._stack = stack
        self._file = stack.home.path.with_name(f"dump-{number}")
        _run([str(program("pg_dump")), "--format=custom", f"--file={self._file}", self._url])

    @property
    def _url(self) -> str:
        return self._stack.cluster.url(DATABASE, "postgres")

    def restore(self, prepare: Callable[[], object]) -> None:
        """As docs/howto/backup.md asks for, in the same cluster, whose identity is no help then.

        `prepare` is called before the first process reads the database.
        Afterwards the API runs, and neither a worker nor an inventory does: see `Stack.start`.
        """
        self._stack.stop(API, WORKER, INVENTORY)
        _wait_for(self._stack)
        name, owner = sql.Identifier(DATABASE), sql.Identifier(OWNER)
        with psycopg.connect(self._stack.cluster.admin_url, autocommit=True) as connection:
            connection.execute(sql.SQL("DROP DATABASE {} WITH (FORCE)").format(name))
            connection.execute(sql.SQL("CREATE DATABASE {} OWNER {}").format(name, owner))
        _run([str(program("pg_restore")), "--exit-on-error", f"--dbname={self._url}", str(self._file)])
        prepare()
        _run(list(python("app.server", "migrate")), GPULEASE_DATABASE_URL=self._stack.credentials.database_url)
        self._stack.start(API)


def _wait_for(stack: Stack) -> None:
    assert wait_until(lambda: answers(stack.cluster.admin_url), timeout=PATIENCE), "the server does not start"


def _run(argv: list[str], **environment: str) -> None:
    kept = {name: value for name, value in os.environ.items() if not name.startswith("PG")}
    done = subprocess.run(
        argv, cwd=Path(ROOT), env={**kept, **environment}, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
