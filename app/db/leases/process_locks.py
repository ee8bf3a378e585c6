"""Whose claims are: a claim id begins with the number of its process, and a lock of that number says that it lives.

PostgreSQL drops the lock as soon as the process is gone, however it ended; then its claims need not run out. A process
that lives without its lock (a cut connection) may lose claims to others. That is what a claim that ran out means as well:
whoever lost it decides nothing any more, and a call under way is repeated as the same attempt.
"""

import secrets
from uuid import UUID

from sqlalchemy import ColumnElement, Select, func, literal_column, select, text

from app.db.operations.cluster import IS_KNOWN_SQL

_CLASS = 0x67_70_6C_73
"""Of our advisory locks, beside those of others in the same database."""
_AFTER_RESTART = "interval '10 seconds'"
"""A server that has just started knows no locks yet, though all may live."""

_NUMBER_BITS, _RANDOM_BITS = 31, 62
_NAMED = "8"
"""The version in a claim id that begins with a process' number; others are random altogether (version 4)."""


def new_number() -> int:
    """For a process that starts; `lock` tells whether it is free."""
    return secrets.randbits(_NUMBER_BITS)


def lock(number: int) -> Select[tuple[bool]]:
    """Takes the number for as long as the connection lasts; one row: whether it was free."""
    return select(func.pg_try_advisory_lock(_CLASS, number))


def claim_id(number: int | None) -> UUID:
    """A claim id of the process; None: of nobody in particular, such a claim runs out by itself."""
    if number is None:
        return UUID(bytes=secrets.token_bytes(16), version=4)
    return UUID(int=(number << 96) | (int(_NAMED) << 76) | (0b10 << _RANDOM_BITS) | secrets.randbits(_RANDOM_BITS))


def claim_ids(number: int | None) -> ColumnElement[UUID]:
    """The same as an expression: another one for each row."""
    if number is None:
        return func.gen_random_uuid()
    named = f"overlay(overlay(gen_random_uuid()::text PLACING '{number:08x}' FROM 1) PLACING '{_NAMED}' FROM 15)::uuid"
    return literal_column(named)


_FREE = """
    WITH alive AS MATERIALIZED (
        SELECT objid::bigint FROM pg_locks
        WHERE locktype = 'advisory' AND classid = {class_} AND objsubid = 2 AND granted
          AND database = (SELECT oid FROM pg_database WHERE datname = current_database()))
    UPDATE {table} SET held_until = now()
    WHERE next_due <= now() AND held_until > now() AND substr(claim_id::text, 15, 1) = '{named}'
      AND ('x' || substr(claim_id::text, 1, 8))::bit(32)::bigint NOT IN (SELECT objid FROM alive)
      AND pg_postmaster_start_time() < now() - {after_restart}
      AND EXISTS (SELECT FROM installation WHERE {is_known})
"""


FREE = tuple(
    text(_FREE.format(class_=_CLASS, table=table, named=_NAMED, after_restart=_AFTER_RESTART, is_known=IS_KNOWN_SQL))
    for table in ("lease", "periodic_job", "webhook")
)
"""Statements that end the claims of processes that are gone; the count of rows tells how many.

None on a server that is not the known cluster: the locks were kept by another server, and the start time of a promoted
standby proves nothing."""
