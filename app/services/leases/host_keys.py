"""Host keys of leased VMs. Each VM reports its own keys with a token that works once."""

import hmac
import re

from app.db.leases import host_keys as statements
from app.domain.ids import LeaseId
from app.domain.ssh_keys import normal_blob, split_key
from app.domain.tokens import host_key_hash
from app.services.context import ServiceContext
from app.services.errors import InvalidToken
from app.services.tenants.ssh_key_format import check_key_data

LONGEST_KEY = 4096

_TOKEN = re.compile(r"[0-9a-f]{64}")
_KEY = re.compile(r"(ssh-ed25519|ssh-rsa|ecdsa-sha2-nistp(?:256|384|521)) [A-Za-z0-9+/]+={0,2}")


def host_public_key(text: str) -> str:
    """The normal form of a key: `<type> <base64>` on one line, without a comment. Raises ValueError."""
    if len(text) > LONGEST_KEY or _KEY.fullmatch(text) is None:
        raise ValueError("must be the type and the base64 text of one SSH public key, without a comment")
    kind, blob, _ = split_key(text)
    key = f"{kind} {normal_blob(kind, blob)}"
    check_key_data(key, "SSH")
    return key


def one_of_each_type(keys: list[str]) -> list[str]:
    """Checks that a host has one key of each type. Raises ValueError."""
    if len({key.partition(" ")[0] for key in keys}) < len(keys):
        raise ValueError("must hold one key of each type")
    return keys


class HostKeyService:
    """Accepts the host keys that VMs report. This is the only use case without an API key."""

    def __init__(self, context: ServiceContext) -> None:
        self._database = context.database

    async def is_known(self, token: str) -> bool:
        """Whether `token` belongs to a VM that has not ended. Text that cannot be a token costs no query."""
        if _TOKEN.fullmatch(token) is None:
            return False
        presented = host_key_hash(token)
        rows = await self._database.rows(None, statements.owner(presented))
        return any(hmac.compare_digest(row["host_key_hash"], presented) for row in rows)

    async def accept(self, token: str | None, keys: list[str], request_id: str) -> None:
        """Stores the keys on the token's lease. Raises InvalidToken for an unknown or used token, or an ended VM."""
        if token is None or _TOKEN.fullmatch(token) is None:
            raise InvalidToken
        presented = host_key_hash(token)
        async with self._database.transaction(None) as connection:
            row = (await connection.execute(statements.owner(presented))).one_or_none()
            if row is None or not hmac.compare_digest(row.host_key_hash, presented):
                raise InvalidToken
            accepted = await connection.execute(*statements.accept(LeaseId(row.lease_id), row.n, keys, request_id))
            if accepted.first() is None:
                raise InvalidToken
