"""Statements of the readiness check."""

from typing import Any

from sqlalchemy import Select, func, select, text

from app.db.tables import worker_heartbeat

SCHEMA_REVISION = text("SELECT version_num FROM alembic_version")

HEARTBEATS: Select[Any] = select(
    worker_heartbeat.c.kind,
    func.extract("epoch", func.now() - worker_heartbeat.c.seen_at).label("seconds"),
)
"""Age of each process' last sign of life."""
