"""Host keys of simulated VMs. The key belongs to the address, because a client sends nothing else before it sees the key."""

from __future__ import annotations

import hashlib

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat, PublicFormat


def private_key(address: str) -> bytes:
    """The Ed25519 key in OpenSSH's format. Everybody can derive it: it protects nothing but a simulation."""
    return _key(address).private_bytes(Encoding.PEM, PrivateFormat.OpenSSH, NoEncryption())


def public_line(address: str) -> str:
    """`ssh-ed25519 AAAA…`, without a comment."""
    return _key(address).public_key().public_bytes(Encoding.OpenSSH, PublicFormat.OpenSSH).decode()


def _key(address: str) -> Ed25519PrivateKey:
    return Ed25519PrivateKey.from_private_bytes(hashlib.sha256(f"cloudsim {address}".encode()).digest())
