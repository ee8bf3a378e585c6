"""The database logins of the processes: one for the API, one for worker and inventory. `migrate` makes them as the database's owner."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import psycopg
from psycopg import sql
from sqlalchemy import NullPool, create_engine

from app.db.core.connections import API_SESSION, CONNECT_SECONDS, WORKER_SESSION, SessionSettings
from app.db.core.urls import sync_url

GROUPS = (API_SESSION.role, WORKER_SESSION.role)
_NAMES = {API_SESSION.role: "{}_api_login", WORKER_SESSION.role: "{}_worker_login"}
_LOCK = 0x6770756D
"""Advisory lock: several hosts may migrate at once, and PostgreSQL refuses to change one role twice at a time."""
_LONGEST_NAME = 63


@dataclass(frozen=True, slots=True, kw_only=True)
class Login:
    """A member of one group role. Connections of `name` to `database` have the group's role and time-outs from the start."""

    name: str
    database: str
    settings: SessionSettings
    password: str = field(repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class Cluster:
    """What the owner finds: its name, its database, the roles that exist, and whether it may make more."""

    owner: str
    database: str
    roles: frozenset[str]
    may_create: bool


def login_for(cluster: Cluster, settings: SessionSettings, password: str) -> Login:
    """Named after the database, since roles belong to the cluster and another database may be another installation.

    Raises ValueError when PostgreSQL would cut the name off.
    """
    name = _NAMES[settings.role].format(cluster.database)
    if len(name.encode()) > _LONGEST_NAME:
        raise ValueError(f"the name of the database is too long: the login would be called {name}")
    return Login(name=name, database=cluster.database, settings=settings, password=password)


@contextmanager
def owner_connection(url: str) -> Iterator[psycopg.Connection[Any]]:
    """One transaction as the login that `url` names. Raises SQLAlchemy's and psycopg's errors."""
    engine = create_engine(sync_url(url), poolclass=NullPool, connect_args={"connect_timeout": CONNECT_SECONDS})
    with engine.begin() as connection:
        driver: Any = connection.connection.driver_connection
        yield driver


def read_cluster(connection: psycopg.Connection[Any]) -> Cluster:
    row = connection.execute(
        "SELECT current_user, current_database(), rolcreaterole OR rolsuper, (SELECT array_agg(rolname::text) FROM pg_roles) "
        "FROM pg_roles WHERE rolname = current_user"
    ).fetchone()
    assert row is not None
    owner, database, may_create, roles = row
    return Cluster(owner=owner, database=database, roles=frozenset(roles), may_create=may_create)


def ensure_login(connection: psycopg.Connection[Any], login: Login) -> None:
    """Makes the login, or brings it up to date, its password included. Only a hash of that reaches the server.

    Raises psycopg.errors.InsufficientPrivilege.
    """
    connection.execute("SELECT pg_advisory_xact_lock(%s)", [_LOCK])
    there = connection.execute("SELECT FROM pg_roles WHERE rolname = %s", [login.name]).rowcount
    if not there:
        connection.execute(_create(login.name))
    hashed = connection.pgconn.encrypt_password(login.password.encode(), login.name.encode()).decode()
    for statement in [_set_password(login.name, hashed), *_configure(login)]:
        connection.execute(statement)


def script_for_administrator(cluster: Cluster, logins: Sequence[Login]) -> str:
    """The SQL that does the same, for somebody who may run it. Passwords are to be filled in."""
    groups = [group for group in GROUPS if group not in cluster.roles]
    statements = [sql.SQL("CREATE ROLE {} NOLOGIN").format(sql.Identifier(group)) for group in groups]
    if groups:
        names = sql.SQL(", ").join(map(sql.Identifier, GROUPS))
        statements.append(sql.SQL("GRANT {} TO {}").format(names, sql.Identifier(cluster.owner)))
    for login in logins:
        if login.name not in cluster.roles:
            statements.append(_create(login.name))
        statements += [_set_password(login.name, "…"), *_configure(login)]
    return "".join(f"{statement.as_string()};\n" for statement in statements)


def _create(name: str) -> sql.Composed:
    return sql.SQL("CREATE ROLE {} LOGIN").format(sql.Identifier(name))


def _set_password(name: str, password: str) -> sql.Composed:
    return sql.SQL("ALTER ROLE {} LOGIN PASSWORD {}").format(sql.Identifier(name), sql.Literal(password))


def _configure(login: Login) -> list[sql.Composed]:
    name, database = sql.Identifier(login.name), sql.Identifier(login.database)
    group = sql.Identifier(login.settings.role)
    change = sql.SQL("ALTER ROLE {} IN DATABASE {} SET {} = {}")
    values = {**login.settings.values, "role": login.settings.role}
    return [
        sql.SQL("GRANT {} TO {}").format(group, name),
        *(change.format(name, database, sql.Identifier(key), sql.Literal(value)) for key, value in values.items()),
    ]
