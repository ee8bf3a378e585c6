"""SSH public keys: their text form, their fingerprints, and which keys a lease gets."""

import base64
import binascii
import hashlib
from collections.abc import Iterable, Iterator

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


def normal_form(line: str) -> str:
    """The line as gpulease stores it and writes it into VMs: type, base64 and comment of one key for logins.

    The base64 text is encoded anew from the decoded key (RFC 4253, section 6.6). Raises ValueError for a line with
    another type, with options, with control characters, or with text that is not the base64 of a key of its type.
    """
    if not line.isprintable():
        raise ValueError("must be one line of printable characters")
    kind, blob, comment = split_key(line)
    if kind not in SSH_KEY_TYPES:
        raise ValueError(
            f"must begin with its type, one of {', '.join(sorted(SSH_KEY_TYPES))}; options are not accepted"
        )
    return " ".join(filter(None, (kind, normal_blob(kind, blob), comment)))


def normal_blob(kind: str, blob: str) -> str:
    """The base64 text of a key of type `kind`, decoded strictly and encoded anew. Raises ValueError."""
    try:
        data = base64.b64decode(blob, validate=True)
    except (binascii.Error, ValueError):
        data = b""
    if not data or len(base64.b64encode(data)) != len(blob):
        raise ValueError("has a second field that is not base64: copy the whole line, without commas or quotes")
    if next(_parts(data), b"").decode(errors="replace") != kind:
        raise ValueError(f"is cut, or is not a key of type {kind}")
    return base64.b64encode(data).decode()


def _parts(data: bytes) -> Iterator[bytes]:
    """The length-prefixed strings of a key's data. Nothing when they do not fill the data exactly."""
    parts, at = [], 0
    while at < len(data):
        end = at + 4 + int.from_bytes(data[at : at + 4])
        parts.append(data[at + 4 : end])
        at = end
    return iter(parts if at == len(data) else ())


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
