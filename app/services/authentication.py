"""Checks API keys, and believes a checked one for a few seconds."""

import asyncio
import hashlib
import hmac
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from app.db.core.engine import ApiDatabase
from app.db.tenancy import keys as statements
from app.domain.ids import KeyId, TenantId
from app.services import key_format
from app.services.errors import Unauthenticated
from app.services.key_format import KeyText
from app.services.principal import Role

_REMEMBERED = 10_000
"""Entries kept of each kind: a flood of made-up keys cannot fill the memory."""
_TOUCH_EVERY = 60.0


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckedKey:
    """What a valid key stands for. `believed_until` is on the authenticator's clock."""

    key_id: KeyId
    name: str
    role: Role
    tenant_id: TenantId | None
    believed_until: float


class Authenticator:
    """`cache_seconds` bounds how long a revoked key still works. `clock` is monotonic seconds."""

    def __init__(
        self, database: ApiDatabase, *, cache_seconds: float, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._database = database
        self._cache_seconds = cache_seconds
        self._clock = clock
        self._checked: dict[bytes, CheckedKey] = {}
        self._refused: dict[bytes, float] = {}
        self._checking: dict[bytes, asyncio.Task[CheckedKey | None]] = {}
        self._touched: dict[KeyId, float] = {}
        self._to_touch: set[KeyId] = set()

    def has_worked(self, text: str) -> bool:
        """Whether this very key was valid not long ago."""
        return _digest(text) in self._checked

    async def check(self, text: str) -> CheckedKey:
        """Raises Unauthenticated, whatever is wrong with the key."""
        digest = _digest(text)
        known = self._checked.get(digest)
        if known is None or known.believed_until <= self._clock():
            known = await self._look_up(text, digest)
        self._note_use(known.key_id)
        return known

    async def write_uses(self) -> None:
        """Writes `last_used_at` of the keys used since the last time, in one statement."""
        key_ids, self._to_touch = self._to_touch, set()
        if key_ids:
            async with self._database.transaction(None) as connection:
                await connection.execute(statements.touch(key_ids))

    async def _look_up(self, text: str, digest: bytes) -> CheckedKey:
        parsed = key_format.parse(text)
        if parsed is None or self._refused.get(digest, 0.0) > self._clock():
            raise Unauthenticated
        task = self._checking.get(digest)
        if task is None:
            task = asyncio.create_task(self._query(parsed))
            self._checking[digest] = task
            task.add_done_callback(lambda _: self._checking.pop(digest, None))
        checked = await asyncio.shield(task)
        self._remember(digest, checked)
        if checked is None:
            raise Unauthenticated
        return checked

    async def _query(self, key: KeyText) -> CheckedKey | None:
        rows = await self._database.fetch(None, statements.CHECK, key_id=key.key_id)
        row = rows[0] if rows else None
        seconds = _valid_for(row, key.secret_hash)
        if row is None or seconds is None:
            return None
        return CheckedKey(
            key_id=KeyId(row["id"]),
            name=row["name"],
            role=Role(row["role"]),
            tenant_id=row["tenant_id"],
            believed_until=self._clock() + min(seconds, self._cache_seconds),
        )

    def _remember(self, digest: bytes, checked: CheckedKey | None) -> None:
        if checked is not None:
            _bound(self._checked)
            self._checked[digest] = checked
            return
        _bound(self._refused)
        self._refused[digest] = self._clock() + self._cache_seconds
        self._checked.pop(digest, None)

    def _note_use(self, key_id: KeyId) -> None:
        now = self._clock()
        if now - self._touched.get(key_id, -_TOUCH_EVERY) >= _TOUCH_EVERY:
            _bound(self._touched)
            self._touched[key_id] = now
            self._to_touch.add(key_id)


def _digest(text: str) -> bytes:
    return hashlib.sha256(text.encode("utf-8", "surrogateescape")).digest()


def _valid_for(row: dict[str, Any] | None, secret_hash: bytes) -> float | None:
    """Seconds for which the secret is right (infinite without expiry), None when it is wrong."""
    if row is None:
        hmac.compare_digest(secret_hash, bytes(32))
        return None
    left = float("inf") if row["seconds_left"] is None else float(row["seconds_left"])
    if hmac.compare_digest(secret_hash, row["secret_hash"]):
        return left
    previous = row["previous_secret_hash"]
    if previous is None or not hmac.compare_digest(secret_hash, previous) or row["previous_seconds_left"] <= 0:
        return None
    return min(left, float(row["previous_seconds_left"]))


def _bound(entries: dict[Any, Any]) -> None:
    if len(entries) >= _REMEMBERED:
        entries.clear()
