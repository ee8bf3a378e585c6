"""Statements of the readiness check."""

from collections.abc import Collection

from sqlalchemy import exists, func, select, text

from app.db.core.server_state import IS_READ_ONLY
from app.db.core.sql import AnySelect
from app.db.schema.tables import account, worker_heartbeat

CLOCK = text("SELECT CAST(extract(epoch FROM clock_timestamp()) AS double precision)")
"""Seconds since 1970, by the database's clock."""

SCHEMA_REVISION = text("SELECT version_num FROM alembic_version")

READ_ONLY = text(f"SELECT {IS_READ_ONLY} = 'on'")
"""Whether this transaction may not write."""

HEARTBEATS: AnySelect = select(
    worker_heartbeat.c.kind,
    func.extract("epoch", func.now() - worker_heartbeat.c.seen_at).label("seconds"),
)
"""Age of each process' last sign of life."""

_ENDPOINT = account.c.config["endpoint_url"].as_string()


def needs_deadman(providers: Collection[str]) -> AnySelect:
    """Whether there is an account at one of these, where nothing but `gpulease deadman` ends a VM while gpulease is down.

    Plain http is a simulated one's.
    """
    real = func.coalesce(_ENDPOINT, "").not_like("http://%")
    return select(exists().where(account.c.provider.in_(sorted(providers)), real))
