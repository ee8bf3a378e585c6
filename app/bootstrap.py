"""Composition root of the HTTP side: the one place where its parts are made and put together."""

import asyncio
import contextlib
import hmac
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from functools import cache
from pathlib import Path

import structlog
from alembic.script import ScriptDirectory
from fastapi import FastAPI
from sqlalchemy import Connection, NullPool, create_engine, exc, func, literal, make_url, select

import migrations
from app.api.app import create_app
from app.api.auth import Gate
from app.api.rate_limits import SYNC_SECONDS, RateLimiter
from app.db import audit as audit_statements
from app.db import health as health_statements
from app.db import keys as key_statements
from app.db.engine import API_ROLE, EVERY_TENANT, Database, DatabaseUnavailable
from app.db.ids import new_id
from app.db.urls import sync_url
from app.domain.ids import KeyId
from app.domain.schema import SchemaRevisions
from app.hints import QueuedHints, celery_sender
from app.metrics import Metrics
from app.services import key_format
from app.services.container import Services
from app.services.context import Context
from app.services.principal import Role
from app.settings import Settings, StartupError, load_settings
from app.settings.logs import configure_logs

_WRITE_USES_SECONDS = 10.0
_log = structlog.get_logger("gpulease.api")


def create_api() -> FastAPI:
    """The application as uvicorn serves it. Raises StartupError for wrong settings and for an unusable database."""
    settings = load_settings()
    configure_logs(settings.log_level)
    check_database(settings.database_url)
    return build_api(settings)


def build_api(settings: Settings) -> FastAPI:
    """The application for these settings; opens nothing before its lifespan begins."""
    metrics = Metrics()
    hints = QueuedHints(celery_sender(settings.broker_url), metrics)
    database = Database(settings.database_url, pool_size=settings.api_pool_size)
    context = Context(database=database, settings=settings, hints=hints, schema=schema_revisions())
    services = Services.build(context)
    requests = RateLimiter(settings.rate_limit, settings.broker_url, name="requests")
    failures = RateLimiter(settings.login_rate_limit, settings.broker_url, name="failed_logins")
    strangers = RateLimiter(settings.login_rate_limit, settings.broker_url, name="failed_tokens")
    gate = Gate(services.authenticator, requests=requests, failures=failures, strangers=strangers)

    @contextlib.asynccontextmanager
    async def lifespan(_app: FastAPI) -> AsyncIterator[None]:
        hints.start()
        async with _repeating(
            (SYNC_SECONDS, requests.keep_in_step),
            (SYNC_SECONDS, failures.keep_in_step),
            (SYNC_SECONDS, strangers.keep_in_step),
            (_WRITE_USES_SECONDS, services.authenticator.write_uses),
        ):
            yield
        await asyncio.to_thread(hints.stop)
        await asyncio.gather(requests.close(), failures.close(), strangers.close(), database.close())

    return create_app(services, gate=gate, metrics=metrics, lifespan=lifespan)


@contextlib.asynccontextmanager
async def _repeating(*work: tuple[float, Callable[[], Awaitable[None]]]) -> AsyncIterator[None]:
    """Does each piece of work every so many seconds beside the requests, and once more at the end.

    Nothing is cancelled in the middle: a connection that is being opened would be lost.
    """
    stop = asyncio.Event()
    tasks = [asyncio.create_task(_repeat(seconds, one, stop)) for seconds, one in work]
    try:
        yield
    finally:
        stop.set()
        await asyncio.gather(*tasks)


async def _repeat(seconds: float, work: Callable[[], Awaitable[None]], stop: asyncio.Event) -> None:
    while not stop.is_set():
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(stop.wait(), seconds)
        try:
            await work()
        except DatabaseUnavailable as error:
            _log.warning("database unavailable", error=str(error))


@cache
def schema_revisions() -> SchemaRevisions:
    """The migrations in this program."""
    scripts = ScriptDirectory(str(Path(migrations.__file__).parent))
    head = scripts.get_current_head()
    assert head is not None
    return SchemaRevisions(head, frozenset(script.revision for script in scripts.walk_revisions()))


def check_database(url: str) -> None:
    """Raises StartupError when the database cannot be reached or has an older schema than this program needs."""
    where = make_url(url).render_as_string(hide_password=True)
    try:
        with _connected(url) as connection:
            found = connection.execute(health_statements.SCHEMA_REVISION).scalar_one_or_none()
    except exc.ProgrammingError:
        found = None
    except exc.OperationalError as error:
        reason = str(error.orig).strip().partition("\n")[0]
        raise StartupError(f"cannot use the database {where} (GPULEASE_DATABASE_URL): {reason}") from None
    problem = schema_revisions().problem(found)
    if problem is not None:
        raise StartupError(f"the database {where} {problem}: run gpulease-server migrate")


def ensure_operator_key(database_url: str, secret: str | None) -> str:
    """An operator key that works: `secret` (a whole key) when it is valid, else a new one. Answers the whole key."""
    with _connected(database_url) as connection:
        connection.execute(select(func.set_config("gpulease.tenant", EVERY_TENANT, literal(value=True))))
        if secret is not None and _opens(connection, secret):
            return secret
        return _new_operator_key(connection)


@contextlib.contextmanager
def _connected(url: str) -> Iterator[Connection]:
    """One transaction as the API's role, on a connection of its own."""
    engine = create_engine(
        sync_url(url), poolclass=NullPool, connect_args={"connect_timeout": 5, "options": f"-c role={API_ROLE}"}
    )
    try:
        with engine.begin() as connection:
            yield connection
    finally:
        engine.dispose()


def _opens(connection: Connection, secret: str) -> bool:
    parsed = key_format.parse(secret)
    if parsed is None:
        return False
    row = connection.execute(key_statements.check(parsed.key_id)).first()
    return row is not None and row.role == Role.OPERATOR and hmac.compare_digest(row.secret_hash, parsed.secret_hash)


def _new_operator_key(connection: Connection) -> str:
    key = key_format.generate(KeyId(new_id("key")))
    connection.execute(
        key_statements.add(
            {"id": key.key_id, "role": str(Role.OPERATOR), "name": "operator", "secret_hash": key.secret_hash}
        )
    )
    entry = {"id": new_id("audit"), "principal": "system", "role": "system", "action": "key.create"}
    connection.execute(audit_statements.append({**entry, "target": key.key_id}))
    return key.text
