"""Whether the service can do its work."""

from dataclasses import dataclass, field
from typing import Any

from app.db import health as statements
from app.db.engine import DatabaseUnavailable
from app.services.context import Context

_STALE_SECONDS = 60.0
_KINDS = ("worker", "inventory")


@dataclass(frozen=True, slots=True, kw_only=True)
class Readiness:
    """`ready`: requests can be served. `warnings`: what does not work although they can."""

    ready: bool
    checks: dict[str, str]
    warnings: list[str] = field(default_factory=list)


class HealthService:
    """Judges by one short transaction."""

    def __init__(self, context: Context) -> None:
        self._database = context.database
        self._schema = context.schema

    async def readiness(self) -> Readiness:
        """Never raises: a database that is away is an answer too."""
        try:
            async with self._database.transaction(None, read_only=True) as connection:
                revision = (await connection.execute(statements.SCHEMA_REVISION)).scalar_one_or_none()
                beats = (await connection.execute(statements.HEARTBEATS)).mappings().all()
        except DatabaseUnavailable:
            return Readiness(ready=False, checks={"database": "unavailable", "schema": "unknown"})
        schema = self._schema.problem(revision) or "ok"
        return Readiness(
            ready=schema == "ok",
            checks={"database": "ok", "schema": schema, **_checks(beats)},
            warnings=_warnings(beats),
        )


def _checks(beats: Any) -> dict[str, str]:
    fresh = _fresh(beats)
    return {kind: "ok" if fresh.get(kind) else "missing" for kind in _KINDS}


def _warnings(beats: Any) -> list[str]:
    fresh = _fresh(beats)
    return [f"no {kind} process reported within {_STALE_SECONDS:.0f} s" for kind in _KINDS if not fresh.get(kind)]


def _fresh(beats: Any) -> dict[str, int]:
    found: dict[str, int] = {}
    for beat in beats:
        if beat["seconds"] <= _STALE_SECONDS:
            found[beat["kind"]] = found.get(beat["kind"], 0) + 1
    return found
