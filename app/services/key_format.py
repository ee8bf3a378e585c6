"""The text of an API key: `gpl_<key id>_<secret><checksum>`.

`<key id>` is the id without its prefix `key_`. `<secret>` is 43 base62 characters (256 random bits). `<checksum>` is
the CRC-32 of all text before it, in 6 base62 characters. The checksum detects a mistyped key without a query, and
scanners can find leaked keys.
"""

import hashlib
import secrets
import zlib
from dataclasses import dataclass, field

from app.domain.ids import KeyId, is_typeid

_ALPHABET = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
_SECRET_LENGTH = 43
_CHECKSUM_LENGTH = 6
_PREFIX = "gpl"


@dataclass(frozen=True, slots=True)
class KeyText:
    """A well-formed key. It may not exist."""

    key_id: KeyId
    secret: str = field(repr=False)

    @property
    def text(self) -> str:
        """The text that the client sends."""
        body = f"{_PREFIX}_{self.key_id.removeprefix('key_')}_{self.secret}"
        return body + _checksum(body)

    @property
    def secret_hash(self) -> bytes:
        """SHA-256 of the secret. The secret has 256 random bits, so a slow hash would add nothing."""
        return hashlib.sha256(self.secret.encode()).digest()


def generate(key_id: KeyId) -> KeyText:
    """A new secret for a key."""
    return KeyText(key_id, "".join(secrets.choice(_ALPHABET) for _ in range(_SECRET_LENGTH)))


def parse(text: str) -> KeyText | None:
    """Parses a key. None when the form or the checksum is wrong."""
    if not text.isascii():
        return None
    body, checksum = text[:-_CHECKSUM_LENGTH], text[-_CHECKSUM_LENGTH:]
    prefix, _, rest = body.partition("_")
    suffix, _, secret = rest.partition("_")
    key_id = f"key_{suffix}"
    if prefix != _PREFIX or len(secret) != _SECRET_LENGTH or not is_typeid("key", key_id):
        return None
    return KeyText(KeyId(key_id), secret) if _checksum(body) == checksum else None


def prefix(key_id: str) -> str:
    """The public prefix of a key, by which its owner recognises the key."""
    return f"{_PREFIX}_{key_id.removeprefix('key_')}"


def _checksum(text: str) -> str:
    number = zlib.crc32(text.encode())
    digits = []
    for _ in range(_CHECKSUM_LENGTH):
        number, digit = divmod(number, len(_ALPHABET))
        digits.append(_ALPHABET[digit])
    return "".join(reversed(digits))
