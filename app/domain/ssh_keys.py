"""SSH public keys: their text form, their fingerprints, and which keys a lease gets."""

import base64
import hashlib
from collections.abc import Iterable

SSH_KEY_TYPES = frozenset(
    {
        "ssh-ed25519",
        "ssh-rsa",
        "ecdsa-sha2-nistp256",
        "ecdsa-sha2-nistp384",
        "ecdsa-sha2-nistp521",
        "sk-ssh-ed25519@openssh.com",
        "sk-ecdsa-sha2-nistp256@openssh.com",
    }
)
"""The types of keys for logins."""

LEAST_RSA_BITS = 2048
LARGEST_SSH_KEYS = 8192
"""Bytes of UTF-8 of all keys of a lease together: about ten RSA keys of 4096 bits."""
LONGEST_SSH_COMMENT = 256
MOST_SSH_KEYS = 20
"""Keys of one lease."""
MOST_STORED = 500
"""Stored keys of one tenant."""


def split_key(line: str) -> tuple[str, str, str]:
    """Type, base64 text and comment of a line. Absent parts are empty."""
    kind, _, rest = line.partition(" ")
    blob, _, comment = rest.partition(" ")
    return kind, blob, comment


def fingerprint(line: str) -> str:
    """The SHA-256 fingerprint of a valid key, as OpenSSH writes it."""
    digest = hashlib.sha256(base64.b64decode(split_key(line)[1])).digest()
    return f"SHA256:{base64.b64encode(digest).decode().rstrip('=')}"


def describe(line: str) -> str:
    """Fingerprint and comment of a valid key, for the audit trail."""
    return " ".join(filter(None, (fingerprint(line), split_key(line)[2])))


def distinct(lines: Iterable[str]) -> tuple[str, ...]:
    """The keys in order, each once. Two lines that differ only in the comment are the same key."""
    first: dict[tuple[str, str], str] = {}
    for line in lines:
        first.setdefault(split_key(line)[:2], line)
    return tuple(first.values())


def check_total(lines: Iterable[str]) -> None:
    """Raises ValueError when a lease cannot have all these keys."""
    keys = tuple(lines)
    if len(keys) > MOST_SSH_KEYS:
        raise ValueError(f"are {len(keys)} keys; {MOST_SSH_KEYS} are the most")
    size = sum(len(key.encode()) for key in keys)
    if size > LARGEST_SSH_KEYS:
        raise ValueError(f"have {size} bytes together; {LARGEST_SSH_KEYS} are the most")
