"""Statements of the readiness check."""

from typing import Any

from sqlalchemy import Select, exists, func, select, text

from app.db.schema.tables import account, worker_heartbeat

SCHEMA_REVISION = text("SELECT version_num FROM alembic_version")

HEARTBEATS: Select[Any] = select(
    worker_heartbeat.c.kind,
    func.extract("epoch", func.now() - worker_heartbeat.c.seen_at).label("seconds"),
)
"""Age of each process' last sign of life."""

_ENDPOINT = account.c.config["endpoint_url"].as_string()
NEEDS_DEADMAN: Select[Any] = select(
    exists().where(account.c.provider == "azure", func.coalesce(_ENDPOINT, "").not_like("http://%"))
)
"""Whether there is an account at Azure, where nothing but `gpulease deadman` ends a VM when all of ours is down. Plain http
is a simulated one's."""
