"""Alembic's entry: one transaction over the database named by GPULEASE_DATABASE_URL (or by the caller)."""

from alembic import context
from sqlalchemy import create_engine, pool, text

from app.db.core.urls import sync_url
from app.db.schema.tables import metadata
from app.settings import load_settings

_LOCK = 0x6770756C
"""Advisory lock: several hosts may start their migration at once; one does it, the others find it done."""


def run() -> None:
    url = context.config.attributes.get("database_url") or load_settings().database_url
    engine = create_engine(sync_url(url), poolclass=pool.NullPool)
    with engine.connect() as connection, connection.begin():
        connection.execute(text("SELECT pg_advisory_xact_lock(:lock)"), {"lock": _LOCK})
        context.configure(connection=connection, target_metadata=metadata, transactional_ddl=True)
        context.run_migrations()
    engine.dispose()


run()
