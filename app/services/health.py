"""Whether the service can do its work."""

import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import structlog

from app.db.core.api_errors import STATEMENT_ERRORS, DatabaseUnavailable
from app.db.fleet.jobs import MISSING_AFTER
from app.db.operations import health as statements
from app.domain.clocks import clock_problem
from app.services.context import ServiceContext
from app.settings.providers import without_own_end

log = structlog.get_logger(__name__)

_STALE_SECONDS = MISSING_AFTER.total_seconds()
_KINDS = ("worker", "inventory")
_DEADMAN = "deadman"
_DEADMAN_STALE_SECONDS = 900.0
"""A pass every five minutes may miss two."""
_WITHOUT_REDIS = (
    "Redis does not answer: each API process counts rate limits by itself, and workers find leases by their sweep"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Readiness:
    """`ready`: requests can be served. `warnings`: what does not work although they can."""

    ready: bool
    checks: dict[str, str]
    warnings: list[str] = field(default_factory=list)


class HealthService:
    """Judges by one short transaction that may write, and does not."""

    def __init__(self, context: ServiceContext) -> None:
        self._database = context.database
        self._schema = context.schema
        self._redis_is_up = context.redis_is_up

    async def readiness(self) -> Readiness:
        """Never raises: a database that is away, or that refuses a statement, is an answer too."""
        try:
            async with self._database.transaction(None) as connection:
                revision = (await connection.execute(statements.SCHEMA_REVISION)).scalar_one_or_none()
                beats = (await connection.execute(statements.HEARTBEATS)).mappings().all()
                deadman = (await connection.execute(statements.needs_deadman(without_own_end()))).scalar_one()
                read_only = (await connection.execute(statements.READ_ONLY)).scalar_one()
                clock = clock_problem(time.time(), (await connection.execute(statements.CLOCK)).scalar_one())
                session = await self._database.session_problem(connection) or "ok"
        except DatabaseUnavailable:
            return _unknown("unavailable")
        except STATEMENT_ERRORS as error:
            log.error("statement failed", error=str(error).partition("\n")[0])  # noqa: TRY400 - one line of many a minute
            return _unknown("statement failed")
        database = "read-only" if read_only else "ok"
        schema = self._schema.problem(revision) or "ok"
        stale = dict.fromkeys(_KINDS, _STALE_SECONDS) | ({_DEADMAN: _DEADMAN_STALE_SECONDS} if deadman else {})
        missing = _missing(beats, stale)
        return Readiness(
            ready=database == schema == session == "ok",
            checks={
                "database": database,
                "schema": schema,
                "session": session,
                "clock": "ok" if clock is None else "wrong",
            }
            | {kind: "missing" if kind in missing else "ok" for kind in stale},
            warnings=[_warning(kind, seconds) for kind, seconds in missing.items()]
            + ([] if clock is None else [clock])
            + ([] if self._redis_is_up() else [_WITHOUT_REDIS]),
        )


def _unknown(database: str) -> Readiness:
    return Readiness(ready=False, checks={"database": database, "schema": "unknown", "session": "unknown"})


def _missing(beats: Any, stale: Mapping[str, float]) -> dict[str, float]:
    """Of the kinds that must be heard of within so many seconds, those that were not."""
    seen = {beat["kind"] for beat in beats if beat["seconds"] <= stale.get(beat["kind"], 0.0)}
    return {kind: seconds for kind, seconds in stale.items() if kind not in seen}


def _warning(kind: str, seconds: float) -> str:
    if kind == _DEADMAN:
        return f"the dead-man switch reported no pass within {seconds:.0f} s; at Azure it alone ends VMs when all else fails"
    return f"no {kind} process reported within {seconds:.0f} s"
