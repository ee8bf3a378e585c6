"""Settings of every connection to PostgreSQL, and the check that each connection keeps them.

The program sends the settings as a statement on each new connection. Start-up parameters would not reach PostgreSQL
through PgBouncer. PgBouncer refuses parameters that it does not know, or drops them silently where its configuration
ignores them.
"""

import secrets
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any, Self

from sqlalchemy import Connection, Engine, NullPool, Row, TextClause, create_engine, event, text
from sqlalchemy.exc import DBAPIError

from app.db.core.server_state import IS_READ_ONLY, note_opened
from app.db.core.session_limits import SERVER_SETTINGS, server_settings
from app.db.core.urls import sync_url

API_ROLE = "gpulease_api"
WORKER_ROLE = "gpulease_worker"

MARKER = "gpulease.connection"
"""A session setting of this program: a random value for each connection. Another value means that the session belongs
to another client."""

SESSIONS_ONLY = "set pool_mode = session for this database (see docs/running.md)"

CONNECT_SECONDS = 5
PREPARED_STATEMENTS = 500
"""Of a connection, more than a process has statements. A driver that drops one has PostgreSQL plan it anew at its next use;
both drivers keep 100 by default."""
_TRIES = 3


class DatabaseUnusable(Exception):
    """The message is the reason, as a clause that ends a sentence for the person who starts the process."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionSettings:
    """The database role of a process, and PostgreSQL's settings for its connections."""

    role: str
    values: Mapping[str, str]

    def statement(self, marker: str) -> str:
        """A SELECT that applies role, settings and marker for the lifetime of the connection. Its last column is IS_READ_ONLY.

        Names and values are constants of the program, and the marker is hexadecimal.
        """
        values = {**self.values, MARKER: marker, "role": self.role}
        applied = [f"set_config('{name}', '{value}', false)" for name, value in values.items()]
        return "SELECT " + ", ".join([*applied, IS_READ_ONLY])

    def end_idle_transactions(self, seconds: float) -> Self:
        """A copy with another timeout for idle transactions, in seconds."""
        return replace(self, values={**self.values, **server_settings(seconds)})


API_SESSION = SessionSettings(
    role=API_ROLE,
    values={
        **SERVER_SETTINGS,
        "statement_timeout": "15s",
        "timezone": "UTC",
        # the API's statements are short: compiling them costs more than it saves
        "jit": "off",
    },
)
WORKER_SESSION = SessionSettings(
    role=WORKER_ROLE,
    values={**SERVER_SETTINGS, "statement_timeout": "60s", "timezone": "UTC"},
)

STATE = text(f"SELECT current_user AS role, current_setting('{MARKER}', true) AS marker")


def new_marker() -> str:
    return secrets.token_hex(8)


def session_problem(state: Row[Any], settings: SessionSettings, marker: str) -> str | None:
    """What is wrong with a connection in this state that was opened with `marker`; None when it is healthy."""
    if state.marker != marker:
        return f"the connection pooler mixes the sessions of its clients: {SESSIONS_ONLY}"
    if state.role != settings.role:
        return f"statements run as {state.role}, not as {settings.role}"
    return None


def configure_connections(engine: Engine, settings: SessionSettings) -> None:
    """Applies `settings` to every new connection of a psycopg engine, and stores its marker in `info[MARKER]`."""

    def configure(connection: Any, record: Any) -> None:
        record.info[MARKER] = new_marker()
        try:
            connection.autocommit = True
            note_opened(record.info, connection.execute(settings.statement(record.info[MARKER])).fetchone()[-1])
            connection.autocommit = False
        except BaseException:
            connection.close()
            raise
        connection.prepared_max = PREPARED_STATEMENTS

    event.listen(engine, "connect", configure)


@contextmanager
def single_connections(url: str, settings: SessionSettings) -> Iterator[Engine]:
    """An engine without a pool: each `connect` opens a connection, and closes it at the end."""
    engine = create_engine(sync_url(url), poolclass=NullPool, connect_args={"connect_timeout": CONNECT_SECONDS})
    configure_connections(engine, settings)
    try:
        yield engine
    finally:
        engine.dispose()


def check_connections(url: str, settings: SessionSettings) -> "CurrentLogin":
    """The login that `url` names. Raises DatabaseUnusable when its connections do not meet the needs of a process."""
    try:
        with single_connections(url, settings) as engine:
            problem = _find_session_problem(engine, settings)
            if problem is None:
                with engine.connect() as connection:
                    return _read_login(connection, settings)
    except DBAPIError as error:
        problem = _explain(error, settings)
    raise DatabaseUnusable(problem)


def _find_session_problem(engine: Engine, settings: SessionSettings) -> str | None:
    """Uses two connections alternately, to detect a pooler that shares sessions between clients.

    A transaction pooler lends one server connection to both clients, or another server connection to the same client.
    Both cases show another marker. The check runs several times, since other clients of the pooler may interfere.
    """
    with engine.connect() as first:
        for _ in range(_TRIES):
            with engine.connect() as second:
                for connection in (first, second, first):
                    with connection.begin():
                        state = connection.execute(STATE).one()
                    problem = session_problem(state, settings, connection.info[MARKER])
                    if problem is not None:
                        return problem
    return None


def _explain(error: DBAPIError, settings: SessionSettings) -> str:
    """One line that describes what PostgreSQL, or a pooler in front of it, refused."""
    words = str(error.orig).strip().partition("\n")[0]
    state = getattr(error.orig, "sqlstate", None)
    if state == "42501":
        return f"{words}: GRANT {settings.role} to this login"
    if state == "22023":
        return f"{words}: run gpulease-server migrate"
    if "pooling mode" in words or "unsupported startup parameter" in words:
        return f"{words}: {SESSIONS_ONLY}"
    return words or type(error).__name__


EXCESS_RIGHTS = "the database login has rights that this process does not need; see docs/running.md, Database logins"
"""A warning at the start of a process. An injected statement can return to the login's own rights with RESET ROLE."""

_RIGHTS: TextClause = text("""
    SELECT session_user AS login, rolsuper AS superuser, rolbypassrls AS bypassrls, rolcreatedb AS createdb, rolcreaterole AS createrole,
        EXISTS (SELECT FROM pg_tables WHERE schemaname = 'public' AND tablename = 'lease'
            AND pg_has_role(session_user, tableowner, 'MEMBER')) AS owner,
        EXISTS (SELECT FROM pg_roles AS other WHERE other.rolname = :other
            AND pg_has_role(session_user, other.oid, 'MEMBER')) AS other
    FROM pg_roles WHERE rolname = session_user
""")


@dataclass(frozen=True, slots=True, kw_only=True)
class CurrentLogin:
    """The name of the login, and those of its rights that no process of this kind needs."""

    name: str
    excess: tuple[str, ...]


def _read_login(connection: Connection, settings: SessionSettings) -> CurrentLogin:
    """The login of this connection, regardless of the role that the session has set since."""
    other = WORKER_ROLE if settings.role == API_ROLE else API_ROLE
    row = connection.execute(_RIGHTS, {"other": other}).one()
    if row.superuser:
        return CurrentLogin(name=row.login, excess=("SUPERUSER",))
    rights = {
        "BYPASSRLS": row.bypassrls,
        "CREATEDB": row.createdb,
        "CREATEROLE": row.createrole,
        "owner of the tables": row.owner,
        f"member of {other}": row.other,
    }
    return CurrentLogin(name=row.login, excess=tuple(right for right, there in rights.items() if there))
