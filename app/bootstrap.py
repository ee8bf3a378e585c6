"""Composition root of the HTTP side: the one place where its parts are made and put together."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable

import structlog
from fastapi import FastAPI

from app.api.app import create_app
from app.api.http.auth import Gate
from app.api.http.fair_queue import RequestQueue, Share
from app.api.http.rate_limits import SYNC_SECONDS, RateLimiter, SharedCounts
from app.db.core.api_errors import DatabaseUnavailable
from app.db.core.engine import ApiDatabase
from app.hints import QueuedHints, celery_sender
from app.observability.metrics import ApiMetrics
from app.observability.traces import Traces
from app.prerequisites import schema_revisions
from app.services.container import Services
from app.services.context import ServiceContext
from app.services.event_stream import POLL_SECONDS
from app.services.gpus.samples import COUNT_SECONDS
from app.settings import Settings

_WRITE_USES_SECONDS = 10.0
_log = structlog.get_logger("gpulease.api")


AGENT_REPORTS = "30/minute"
"""Proofs of one attempt. An agent sends one per boot."""


def build_api(settings: Settings, traces: Traces | None = None) -> FastAPI:
    """The application for these settings; opens nothing before its lifespan begins."""
    metrics = ApiMetrics()
    hints = QueuedHints(celery_sender(settings.broker_url), metrics)
    database = ApiDatabase(settings.database_url, pool_size=settings.api_pool_size)
    context = ServiceContext(
        database=database,
        settings=settings,
        hints=hints,
        schema=schema_revisions(),
        redis_is_up=lambda: metrics.redis_is_up,
    )
    services = Services.build(context)
    requests = RateLimiter(settings.rate_limit, name="requests")
    writes = RateLimiter(settings.write_rate_limit, name="writes")
    failures = RateLimiter(settings.login_rate_limit, name="failed_logins")
    strangers = RateLimiter(settings.login_rate_limit, name="failed_tokens")
    reports = RateLimiter(AGENT_REPORTS, name="agent_reports")
    limits = {"requests": requests, "writes": writes, "failures": failures, "strangers": strangers, "reports": reports}
    queue = RequestQueue(Share.of_pool(settings.api_pool_size))
    gate = Gate(services.authenticator, **limits, queue=queue)
    counts = SharedCounts(limits.values(), settings.broker_url, metrics)

    @contextlib.asynccontextmanager
    async def lifespan(_app: FastAPI) -> AsyncIterator[None]:
        hints.start()
        async with _repeating(
            (SYNC_SECONDS, counts.keep_in_step),
            (POLL_SECONDS, services.streams.look),
            (_WRITE_USES_SECONDS, services.authenticator.write_uses),
            (COUNT_SECONDS, services.gpu_samples.write_counts),
        ):
            yield
        await asyncio.to_thread(hints.stop)
        await asyncio.gather(counts.close(), database.close())

    return create_app(services, gate=gate, metrics=metrics, traces=traces or Traces(), lifespan=lifespan)


@contextlib.asynccontextmanager
async def _repeating(*work: tuple[float, Callable[[], Awaitable[None]]]) -> AsyncIterator[None]:
    """Does each piece of work every so many seconds beside the requests, and once more at the end.

    Nothing is cancelled in the middle: a connection that is being opened would be lost.
    """
    stop = asyncio.Event()
    tasks = [asyncio.create_task(_repeat(seconds, action, stop)) for seconds, action in work]
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
