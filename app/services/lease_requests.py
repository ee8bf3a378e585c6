"""Checks of a lease request that need more than the type of a field."""

import base64
import hashlib
from dataclasses import dataclass, field
from ipaddress import ip_network

from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPublicKey
from cryptography.hazmat.primitives.serialization import load_ssh_public_key

from app.domain.lease_requests import LeaseRequest
from app.domain.placement import Requirements

LEAST_RSA_BITS = 2048
LARGEST_SSH_KEYS = 8192
"""Bytes of UTF-8 of all keys of a request together: about ten RSA keys of 4096 bits."""
LONGEST_SSH_COMMENT = 256
LARGEST_STARTUP_SCRIPT = 12 * 1024
"""Bytes of UTF-8. EC2 accepts 16 KiB of user data, which must also hold our own part."""

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


@dataclass(frozen=True, slots=True, kw_only=True)
class CreateLease:
    """A checked create call. `tenant_id` None: the caller's own tenant."""

    tenant_id: str | None
    request: LeaseRequest
    startup_script: str | None = field(repr=False)

    @property
    def requirements(self) -> Requirements:
        """The part of the request that placement reads."""
        return Requirements.of(self.request)


def ssh_public_key(text: str) -> str:
    """One line of an authorized_keys file without options, blanks around it removed. Raises ValueError."""
    line = text.strip()
    if not line.isprintable():
        raise ValueError("must be one line of printable characters")
    kind = line.partition(" ")[0]
    if kind not in SSH_KEY_TYPES:
        raise ValueError(
            f"must begin with its type, one of {', '.join(sorted(SSH_KEY_TYPES))}; options are not accepted"
        )
    _, _, comment = line.partition(" ")[2].partition(" ")
    if len(comment) > LONGEST_SSH_COMMENT:
        raise ValueError(f"has a comment of {len(comment)} characters; {LONGEST_SSH_COMMENT} are the most")
    _check_key(line)
    return line


def fingerprint(key: str) -> str:
    """SHA-256 of a checked key as OpenSSH writes it, and the key's comment."""
    _, blob, *comment = key.split(" ", 2)
    digest = base64.b64encode(hashlib.sha256(base64.b64decode(blob)).digest()).decode().rstrip("=")
    return " ".join([f"SHA256:{digest}", *comment])


def check_ssh_keys(keys: list[str]) -> list[str]:
    """Raises ValueError when the keys are too large together."""
    size = sum(len(key.encode()) for key in keys)
    if size > LARGEST_SSH_KEYS:
        raise ValueError(f"have {size} bytes together; {LARGEST_SSH_KEYS} are the most")
    return keys


def _check_key(line: str) -> None:
    try:
        key = load_ssh_public_key(" ".join(line.split(" ")[:2]).encode())
    except (ValueError, UnsupportedAlgorithm):
        raise ValueError("is not a valid OpenSSH public key") from None
    if isinstance(key, RSAPublicKey) and key.key_size < LEAST_RSA_BITS:
        raise ValueError(f"is an RSA key of {key.key_size} bits; {LEAST_RSA_BITS} are the least")


def network(text: str) -> str:
    """An IPv4 or IPv6 network with its prefix length, in its usual form. Raises ValueError."""
    address, slash, _ = text.partition("/")
    if not slash or "%" in address:
        raise ValueError("must be a network with a prefix length, such as 203.0.113.0/24 or 203.0.113.7/32")
    try:
        return str(ip_network(text))
    except ValueError:
        raise ValueError(_instead(text)) from None


def _instead(text: str) -> str:
    try:
        return f"has bits set beyond its prefix; {ip_network(text, strict=False)} is the network"
    except ValueError:
        return "is not a network such as 203.0.113.0/24 or 2001:db8::/32"


def checked_script(text: str) -> str:
    """Checks the size. Raises ValueError."""
    size = len(text.encode())
    if size > LARGEST_STARTUP_SCRIPT:
        raise ValueError(f"has {size} bytes; {LARGEST_STARTUP_SCRIPT} are the most")
    return text
