"""Statements of idempotency records. A record lives until the workers purge it, 72 hours at least."""

import hashlib

from sqlalchemy import and_, bindparam, func, literal_column, select
from sqlalchemy.dialects.postgresql import insert

from app.db.core.compiled import Compiled
from app.db.schema.tables import idempotency


def lock_number(scope: str, key: str, route: str) -> int:
    """A signed 64-bit number for the advisory lock of one idempotency key."""
    digest = hashlib.blake2b(f"{scope}\n{key}\n{route}".encode(), digest_size=8).digest()
    return int.from_bytes(digest, "big", signed=True)


_RECORD = ("scope", "key", "route", "body_hash", "status", "response", "location")

_ONE = select(func.pg_try_advisory_xact_lock(bindparam("lock")).label("mine")).subquery("one")
_FIND = select(
    _ONE.c.mine,
    idempotency.c.body_hash,
    idempotency.c.status,
    idempotency.c.response,
    idempotency.c.location,
).select_from(
    _ONE.outerjoin(
        idempotency,
        and_(
            literal_column("true"),
            idempotency.c.scope == bindparam("scope"),
            idempotency.c.key == bindparam("key"),
            idempotency.c.route == bindparam("route"),
        ),
    )
)


FIND = Compiled(_FIND)
"""One row: `mine` (the lock is ours until the transaction ends) and the record, all None when there is none.

Parameters: scope, key, route, lock (see `lock_number`).
"""

STORE = Compiled(
    insert(idempotency)
    .values({name: bindparam(name) for name in _RECORD})
    .on_conflict_do_nothing()
    .returning(idempotency.c.status)
)
"""Keeps an answer. One row, or none when another transaction was quicker: roll back then.

Parameters: scope, key, route, body_hash, status, response, location.
"""
