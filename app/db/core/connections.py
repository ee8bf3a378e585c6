"""What every connection to PostgreSQL is set to, and the check that it stays so.

The settings go out as a statement on each new connection. As start-up parameters they do not reach PostgreSQL through
PgBouncer, which refuses parameters that it does not know, or drops them silently when it is told to ignore them.
"""

import secrets
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any, Self

from sqlalchemy import Connection, Engine, NullPool, Row, TextClause, create_engine, event, text
from sqlalchemy.exc import DBAPIError

from app.db.core.session_limits import SERVER_SETTINGS, server_settings
from app.db.core.urls import sync_url

API_ROLE = "gpulease_api"
WORKER_ROLE = "gpulease_worker"

MARKER = "gpulease.connection"
"""A session setting of the program's own: a random value for each connection. Another value belongs to another client."""

SESSIONS_ONLY = "set pool_mode = session for this database (see docs/running.md)"

READ_ONLY = "25006"
"""SQLSTATE of a write on a server that takes none: a standby that is not promoted yet. The same may succeed later."""

CONNECT_SECONDS = 5
_TRIES = 3


class DatabaseUnusable(Exception):
    """Why, as a clause that ends a sentence for whoever starts the process."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionSettings:
    """The role that a process becomes, and PostgreSQL's settings for its connections."""

    role: str
    values: Mapping[str, str]

    def statement(self, marker: str) -> str:
        """Sets all of them for as long as the connection lasts. They are constants of the program, the marker is hexadecimal."""
        values = {**self.values, MARKER: marker, "role": self.role}
        return "SELECT " + ", ".join(f"set_config('{name}', '{value}', false)" for name, value in values.items())

    def end_idle_transactions(self, seconds: float) -> Self:
        """The same with another limit for a transaction that stands still."""
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
    """What is wrong with a connection that shows this state and was marked so; None when all is well."""
    if state.marker != marker:
        return f"the connection pooler mixes the sessions of its clients: {SESSIONS_ONLY}"
    if state.role != settings.role:
        return f"statements run as {state.role}, not as {settings.role}"
    return None


def configure_connections(engine: Engine, settings: SessionSettings) -> None:
    """Every new connection of a psycopg engine is set, and knows its marker (`info[MARKER]`)."""

    def configure(connection: Any, record: Any) -> None:
        record.info[MARKER] = new_marker()
        try:
            connection.autocommit = True
            connection.execute(settings.statement(record.info[MARKER]))
            connection.autocommit = False
        except BaseException:
            connection.close()
            raise

    event.listen(engine, "connect", configure)


@contextmanager
def single_connections(url: str, settings: SessionSettings) -> Iterator[Engine]:
    """An engine without a pool: each `connect` opens a connection, and closes it at its end."""
    engine = create_engine(sync_url(url), poolclass=NullPool, connect_args={"connect_timeout": CONNECT_SECONDS})
    configure_connections(engine, settings)
    try:
        yield engine
    finally:
        engine.dispose()


def check_connections(url: str, settings: SessionSettings) -> "CurrentLogin":
    """The login that `url` names. Raises DatabaseUnusable when connections to it are not what a process needs."""
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
    """Lets two connections take turns.

    A pooler of transactions lends one server connection to both, or another one to the same client. Either shows another
    marker. Several tries, since other clients of the pooler may come in between.
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
    """In one line what PostgreSQL, or a pooler in front of it, refused."""
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
"""A warning at the start. A statement that somebody smuggles in can go back to the login's own rights (RESET ROLE)."""

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
    """Who is logged in, and which of its rights no process of this kind needs."""

    name: str
    excess: tuple[str, ...]


def _read_login(connection: Connection, settings: SessionSettings) -> CurrentLogin:
    """The login of this connection, whatever role it has taken since."""
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
