"""The SSH key with which the members of a group log in to each other. It is derived, never stored, and the same for all members."""

import base64
import hmac
import struct
from hashlib import sha256

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat, load_ssh_private_key

_KIND = b"ssh-ed25519"
_BLOCK = 8
_LINE = 70


def group_key(key: bytes, installation: str, group_id: str) -> str:
    """The private key of a group in OpenSSH's format. `key`: of the installation's tokens."""
    return private_key(hmac.new(key, f"group-ssh/{installation}/{group_id}".encode(), sha256).digest())


def private_key(seed: bytes) -> str:
    """The Ed25519 key of a seed of 32 bytes, unencrypted, the same text for the same seed.

    The library's own writer adds random bytes. The layout: PROTOCOL.key of OpenSSH.
    """
    public = Ed25519PrivateKey.from_private_bytes(seed).public_key().public_bytes_raw()
    check = sha256(seed).digest()[:4]
    secret = check + check + _text(_KIND) + _text(public) + _text(seed + public) + _text(b"")
    secret += bytes(range(1, 1 + -len(secret) % _BLOCK))
    header = b"openssh-key-v1\0" + _text(b"none") + _text(b"none") + _text(b"") + struct.pack(">I", 1)
    content = base64.b64encode(header + _text(_text(_KIND) + _text(public)) + _text(secret)).decode()
    lines = [content[start : start + _LINE] for start in range(0, len(content), _LINE)]
    return "\n".join(["-----BEGIN OPENSSH PRIVATE KEY-----", *lines, "-----END OPENSSH PRIVATE KEY-----", ""])


def public_line(private: str) -> str:
    """The public key of a private one, as a line of `authorized_keys` without a comment."""
    public = load_ssh_private_key(private.encode(), password=None).public_key()
    return public.public_bytes(Encoding.OpenSSH, PublicFormat.OpenSSH).decode()


def _text(value: bytes) -> bytes:
    return struct.pack(">I", len(value)) + value
