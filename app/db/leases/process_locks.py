"""Owners of claims. A claim id begins with its process' number; a lock of that number shows that the process lives.

PostgreSQL drops the lock as soon as the process ends, for any reason. Its claims then need not run out. A process that
lives without its lock (a cut connection) may lose claims to others. An expired claim has the same effect: the former
holder decides nothing any more, and a call in progress is repeated as the same attempt.
"""

import secrets
from uuid import UUID

from sqlalchemy import ColumnElement, Select, func, literal_column, select, text

from app.db.schema.cluster import IS_KNOWN_SQL

_CLASS = 0x67_70_6C_73
"""The class of our advisory locks, which separates them from other locks in the same database."""
_AFTER_RESTART = "interval '10 seconds'"
"""A server that has just started knows no locks yet, although all processes may live."""

_NUMBER_BITS, _RANDOM_BITS = 31, 62
_NAMED = "8"
"""The version digit of a claim id that begins with a process' number. Other claim ids are entirely random (version
4)."""


def new_number() -> int:
    """A number for a process that starts. `lock` shows whether it is free."""
    return secrets.randbits(_NUMBER_BITS)


def lock(number: int) -> Select[tuple[bool]]:
    """Locks the number for the lifetime of the connection. Returns one row: whether the number was free."""
    return select(func.pg_try_advisory_lock(_CLASS, number))


def claim_id(number: int | None) -> UUID:
    """A claim id of process `number`. None: the claim belongs to no process, and ends only by its time-out."""
    if number is None:
        return UUID(bytes=secrets.token_bytes(16), version=4)
    return UUID(int=(number << 96) | (int(_NAMED) << 76) | (0b10 << _RANDOM_BITS) | secrets.randbits(_RANDOM_BITS))


def claim_ids(number: int | None) -> ColumnElement[UUID]:
    """Like `claim_id`, as an SQL expression that has another value for each row."""
    if number is None:
        return func.gen_random_uuid()
    named = f"overlay(overlay(gen_random_uuid()::text PLACING '{number:08x}' FROM 1) PLACING '{_NAMED}' FROM 15)::uuid"
    return literal_column(named)


_FREED = """{table}s AS (
        UPDATE {table} SET held_until = now()
        WHERE next_due <= now() AND held_until > now() AND substr(claim_id::text, 15, 1) = '{named}'
          AND ('x' || substr(claim_id::text, 1, 8))::bit(32)::bigint NOT IN (SELECT objid FROM alive)
          AND pg_postmaster_start_time() < now() - {after_restart}
          AND EXISTS (SELECT FROM known)
        RETURNING 1)"""
_TABLES = ("lease", "periodic_job", "webhook")

FREE = text(
    f"""
    WITH alive AS MATERIALIZED (
        SELECT objid::bigint FROM pg_locks
        WHERE locktype = 'advisory' AND classid = {_CLASS} AND objsubid = 2 AND granted
          AND database = (SELECT oid FROM pg_database WHERE datname = current_database())),
    known AS MATERIALIZED (SELECT FROM installation WHERE {IS_KNOWN_SQL}),
    {", ".join(_FREED.format(table=table, named=_NAMED, after_restart=_AFTER_RESTART) for table in _TABLES)}
    {" UNION ALL ".join(f"SELECT * FROM {table}s" for table in _TABLES)}
    """
)
"""Statement that ends the claims of ended processes. Its row count is the number of claims.

It ends no claim on a server that is not the known cluster. Another server held the locks, and the start time of a
promoted standby proves nothing."""
