"""Requirements of a process at its start: a database with a compatible schema, and an operator's key.

Imports no web server.
"""

import contextlib
import hmac
import time
from collections.abc import Callable, Iterator, Sequence
from functools import cache
from pathlib import Path

from sqlalchemy import Connection, exc, func, literal, make_url, select

import migrations
from app.db.core.connections import API_SESSION, CurrentLogin, DatabaseUnusable, check_connections, single_connections
from app.db.core.ids import new_id
from app.db.core.tenant_scope import EVERY_TENANT
from app.db.fleet import bad_gpus as bad_gpu_statements
from app.db.operations import health as health_statements
from app.db.tenancy import audit as audit_statements
from app.db.tenancy import keys as key_statements
from app.domain.clocks import clock_problem
from app.domain.ids import KeyId
from app.domain.schema import SchemaRevisions
from app.services import key_format
from app.services.principal import Role
from app.settings import StartupError


@cache
def schema_revisions() -> SchemaRevisions:
    """The migrations in this program, by the names of their files: `0001_initial.py` is revision 0001.

    The function does not import Alembic, which would take a fifth of the start of every process.
    """
    files = (Path(migrations.__file__).parent / "versions").glob("[0-9]*.py")
    revisions = frozenset(file.name.partition("_")[0] for file in files)
    return SchemaRevisions(max(revisions), revisions)


def check_database(url: str) -> CurrentLogin:
    """The login that `url` names.

    Raises StartupError when the database is unreachable, or has an older schema than this program needs. Also raises
    StartupError when a connection does not get a session of its own in the API's role.
    """
    where = make_url(url).render_as_string(hide_password=True)
    try:
        login = check_connections(url, API_SESSION)
    except DatabaseUnusable as error:
        raise StartupError(f"cannot use the database {where} (GPULEASE_DATABASE_URL): {error}") from None
    problem = schema_revisions().problem(_schema_revision(url))
    if problem is not None:
        raise StartupError(f"the database {where} {problem}: run gpulease-server migrate")
    return login


def check_clock(url: str, *, clock: Callable[[], float] = time.time) -> str | None:
    """How far the host's clock is from the database's, or None if it is right."""
    with _connected(url) as connection:
        return clock_problem(clock(), connection.execute(health_statements.CLOCK).scalar_one())


def _schema_revision(url: str) -> str | None:
    try:
        with _connected(url) as connection:
            return connection.execute(health_statements.SCHEMA_REVISION).scalar_one_or_none()
    except exc.ProgrammingError:
        return None


def ensure_operator_key(database_url: str, secret: str | None) -> str:
    """A valid operator key: `secret` (a whole key) when it is valid, else a new one. Returns the whole key."""
    with _connected(database_url) as connection:
        connection.execute(select(func.set_config("gpulease.tenant", EVERY_TENANT, literal(value=True))))
        if secret is not None and _opens(connection, secret):
            return secret
        return _new_key(connection, Role.OPERATOR)


def make_deadman_key(database_url: str) -> str:
    """A new key with which `gpulease deadman` reports its passes; it permits nothing else. Returns the whole key."""
    with _connected(database_url) as connection:
        connection.execute(select(func.set_config("gpulease.tenant", EVERY_TENANT, literal(value=True))))
        return _new_key(connection, Role.DEADMAN)


def installation_keys(database_url: str) -> list[str]:
    """A line for each live key that belongs to no tenant: id, role, when it was made and last used."""
    with _connected(database_url) as connection:
        connection.execute(select(func.set_config("gpulease.tenant", EVERY_TENANT, literal(value=True))))
        rows = connection.execute(key_statements.of_no_tenant()).all()
    return [
        "\t".join(
            (row.id, row.role, row.created_at.isoformat(), row.last_used_at.isoformat() if row.last_used_at else "-")
        )
        for row in rows
    ]


def bad_gpus(database_url: str, forget: Sequence[str]) -> list[str]:
    """Forgets the words of all tenants about these GPUs, with an entry in the audit log. Returns a line for each row left."""
    with _connected(database_url) as connection:
        connection.execute(select(func.set_config("gpulease.tenant", EVERY_TENANT, literal(value=True))))
        for uuid in forget:
            if connection.execute(bad_gpu_statements.forget(uuid)).rowcount:
                _record(connection, "bad_gpu.forget", uuid)
        rows = connection.execute(bad_gpu_statements.remembered()).all()
    facts = ("uuid", "provider", "region", "zone", "instance_type", "finding", "times", "tenant_id")
    return ["\t".join((row.last_seen_at.isoformat(), *(str(getattr(row, name)) for name in facts))) for row in rows]


@contextlib.contextmanager
def _connected(url: str) -> Iterator[Connection]:
    """One transaction in the API's role, on a connection of its own."""
    with single_connections(url, API_SESSION) as engine, engine.begin() as connection:
        yield connection


def _opens(connection: Connection, secret: str) -> bool:
    parsed = key_format.parse(secret)
    if parsed is None:
        return False
    row = connection.execute(key_statements.check(parsed.key_id)).first()
    return row is not None and row.role == Role.OPERATOR and hmac.compare_digest(row.secret_hash, parsed.secret_hash)


def _new_key(connection: Connection, role: Role) -> str:
    """Creates a key that belongs to no tenant, with its role as its name."""
    key = key_format.generate(KeyId(new_id("key")))
    values = {"id": key.key_id, "role": str(role), "name": str(role), "secret_hash": key.secret_hash}
    connection.execute(key_statements.add(values))
    _record(connection, "key.create", key.key_id)
    return key.text


def _record(connection: Connection, action: str, target: str) -> None:
    entry = {"id": new_id("audit"), "principal": "system", "role": "system", "action": action}
    connection.execute(audit_statements.append({**entry, "target": target}))
