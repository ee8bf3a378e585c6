"""Idempotency-Key: a repeated request gets the first answer, and the work is done once."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

import orjson
from sqlalchemy.ext.asyncio import AsyncConnection

from app.db.core.engine import fetch
from app.db.tenancy import idempotency as statements
from app.services.errors import IdempotencyInFlight, IdempotencyMismatch


@dataclass(frozen=True, slots=True, kw_only=True)
class IdempotencyKey:
    """`scope` is the tenant (or an operator's key), `route` method and path, `body_hash` SHA-256 of the parsed body.

    `key` is the caller's text after the id of the API key: two API keys never get each other's responses. A rotated API
    key has the same id.
    """

    scope: str
    key: str
    route: str
    body_hash: bytes


@dataclass(frozen=True, slots=True)
class StoredAnswer:
    """The first answer. `response`: JSON, as bytes or as values."""

    status: int
    response: Any
    location: str | None = None


@dataclass(slots=True)
class Reply:
    """The response to a request that may be repeated.

    A service yields it inside its transaction, with `row` set. The API renders the row into `content`, and the
    transaction stores that for repetitions. When `replayed`, `content` is the stored response and there is no row.
    """

    row: Any = None
    content: bytes = b""
    location: str | None = None
    replayed: bool = False


@asynccontextmanager
async def repeatable(connection: AsyncConnection, key: IdempotencyKey | None, status: int) -> AsyncIterator[Reply]:
    """Looks up the first response when the block starts, and stores the new one when it ends.

    The block is the whole work of the transaction, but for `admit_lease`. Raises what `replay` and `store` raise.
    """
    first = await replay(connection, key)
    if first is not None:
        yield Reply(content=orjson.dumps(first.response), location=first.location, replayed=True)
        return
    reply = Reply()
    yield reply
    await store(connection, key, StoredAnswer(status, reply.content, reply.location))


async def replay(connection: AsyncConnection, key: IdempotencyKey | None) -> StoredAnswer | None:
    """First statement of the transaction that does the work: the stored answer, or None: do it.

    Raises IdempotencyMismatch or IdempotencyInFlight. It misses a twin that commits between its look and its lock.
    Call it again before a refusal that the twin's work can cause, such as a name that is taken.
    """
    if key is None:
        return None
    names = {"scope": key.scope, "key": key.key, "route": key.route}
    [row] = await fetch(connection, statements.FIND, {**names, "lock": statements.lock_number(**names)})
    if row["status"] is not None:
        if row["body_hash"] != key.body_hash:
            raise IdempotencyMismatch
        return StoredAnswer(status=row["status"], response=row["response"], location=row["location"])
    if not row["mine"]:
        raise IdempotencyInFlight
    return None


async def store(connection: AsyncConnection, key: IdempotencyKey | None, answer: StoredAnswer) -> None:
    """Last statement of the same transaction. `answer.response` is JSON and must not hold a secret.

    Raises IdempotencyInFlight when a twin committed between our look and our lock: the caller's work rolls back.
    """
    if key is None:
        return
    if not await fetch(connection, statements.STORE, _record(key, answer)):
        raise IdempotencyInFlight


def _record(key: IdempotencyKey, answer: StoredAnswer) -> dict[str, Any]:
    response = answer.response
    return {
        "scope": key.scope,
        "key": key.key,
        "route": key.route,
        "body_hash": key.body_hash,
        "status": answer.status,
        "response": (response if isinstance(response, bytes) else orjson.dumps(response)).decode(),
        "location": answer.location,
    }


@dataclass(frozen=True, slots=True)
class Creation:
    """What a creating call made, as a row; when `replayed`, as it was stored (times and decimals as JSON strings)."""

    values: dict[str, Any]
    replayed: bool
