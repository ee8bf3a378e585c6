"""Composition root of the worker processes: builds a Runtime from the settings, or says in one line why not."""

import time
from collections.abc import Callable, Mapping

import structlog
from sqlalchemy.exc import DBAPIError, ProgrammingError

from app.db.core.connections import EXCESS_RIGHTS, WORKER_SESSION, DatabaseUnusable, check_connections
from app.db.fleet import jobs
from app.observability.logs import configure_logs
from app.observability.traces import Traces
from app.settings import AccountSettings, Settings, StartupError, load_accounts
from app.settings.timing import TIMING
from workers.delivery.notifier import receivers
from workers.jobs.runner import ensure_jobs
from workers.jobs.schedule import job_specs
from workers.providers.ports import Provider
from workers.providers.registry import connect
from workers.runtime.accounts import Accounts
from workers.runtime.brakes import FirstListings, check_cluster
from workers.runtime.bulkheads import bulkheads
from workers.runtime.claim_renewer import ClaimRenewer
from workers.runtime.database import WorkerDatabase
from workers.runtime.metered import metered
from workers.runtime.metrics import WorkerMetrics
from workers.runtime.permits import WORKING_THREADS
from workers.runtime.process_locks import ProcessLiveness
from workers.runtime.provider_rate_limiter import ProviderRateLimiter
from workers.runtime.ranked_offerings import RankedOfferings
from workers.runtime.runtime import Runtime, cool_offs_from, read_installation, timing_from
from workers.runtime.unlabelled_vms import UnlabelledVms

log = structlog.get_logger(__name__)

_EXTRA_CONNECTIONS = 8
_CATALOGUE_SECONDS = 1.0
_RIGHT_MISSING = "42501"
"""SQLSTATE insufficient_privilege."""


def build_runtime(
    settings: Settings,
    *,
    make_database: Callable[..., WorkerDatabase] = WorkerDatabase,
    connect_account: Callable[[AccountSettings, Settings], Provider] = connect,
    traces: Traces | None = None,
    monotonic: Callable[[], float] = time.monotonic,
) -> Runtime:
    """Raises StartupError: no accounts file, wrong or contradicting settings, an unreachable or foreign database."""
    configure_logs(settings.log_level)
    _check(settings)
    receivers(settings)
    configured = load_accounts(settings.config)
    _check_database(settings)
    if settings.config is None:
        raise StartupError("GPULEASE_CONFIG names no accounts file: without it, each account would be draining")
    database = make_database(settings.database_url, pool_size=WORKING_THREADS + _EXTRA_CONNECTIONS)
    try:
        metrics, traces = WorkerMetrics(), traces or Traces()
        connect_metered = metered(connect_account, metrics, traces, monotonic)
        return assemble(
            database, settings, configured, connect_metered, monotonic=monotonic, metrics=metrics, traces=traces
        )
    except ProgrammingError as error:
        failure = StartupError(_what_is_wrong(error))
    except DBAPIError as error:
        failure = StartupError(f"cannot use the database of GPULEASE_DATABASE_URL: {_first_line(error)}")
    except StartupError as error:
        failure = error
    database.close()
    raise failure from None


def assemble(
    database: WorkerDatabase,
    settings: Settings,
    configured: Mapping[str, AccountSettings],
    connect_account: Callable[[AccountSettings, Settings], Provider],
    *,
    monotonic: Callable[[], float] = time.monotonic,
    metrics: WorkerMetrics | None = None,
    traces: Traces | None = None,
) -> Runtime:
    """A process over this database. Raises StartupError when it belongs to another installation, and DBAPIError."""
    installation = read_installation(database, settings)
    check_cluster(database)
    accounts = Accounts(database, settings, configured, connect_account, monotonic=monotonic)
    accounts.save()
    runtime = Runtime(
        settings=settings,
        database=database,
        accounts=accounts,
        catalogue=RankedOfferings(database, seconds=_CATALOGUE_SECONDS, monotonic=monotonic),
        rate_limiter=ProviderRateLimiter(database, enabled=settings.provider_rate_limits),
        installation=installation,
        timing=timing_from(settings),
        cool_offs=cool_offs_from(settings),
        first_listings=FirstListings(database),
        claim_renewer=ClaimRenewer(database),
        liveness=ProcessLiveness(database),
        bulkheads=bulkheads(threads=settings.worker_threads, call_timeout=settings.call_timeout, monotonic=monotonic),
        unlabelled=UnlabelledVms(monotonic),
        monotonic=monotonic,
        metrics=metrics or WorkerMetrics(),
        traces=traces or Traces(),
    )
    places = ensure_jobs(runtime, job_specs(settings).all)
    database.run(jobs.hurry("inventory", places))
    return runtime


def _check_database(settings: Settings) -> None:
    try:
        login = check_connections(settings.database_url, WORKER_SESSION)
    except DatabaseUnusable as error:
        raise StartupError(f"cannot use the database of GPULEASE_DATABASE_URL: {error}") from None
    if login.excess:
        log.warning(EXCESS_RIGHTS, login=login.name, rights=login.excess)


def _check(settings: Settings) -> None:
    call = settings.call_timeout + settings.connect_timeout
    if settings.claim_seconds < 2 * call:
        msg = (
            f"{TIMING} claim_seconds is {settings.claim_seconds:g}, but must be at least twice one provider call "
            f"(call_timeout + connect_timeout = {call:g})"
        )
        raise StartupError(msg)


def _what_is_wrong(error: ProgrammingError) -> str:
    if getattr(error.orig, "sqlstate", None) == _RIGHT_MISSING:
        return f'the database login lacks a right ({_first_line(error)}): see `docs/running.md`, "Database logins"'
    return f"the database's schema does not fit this version ({_first_line(error)}): run `gpulease-server migrate`"


def _first_line(error: DBAPIError) -> str:
    return (str(error.orig).strip() or type(error).__name__).splitlines()[0]
