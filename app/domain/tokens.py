"""Tokens and parameter hashes of a launch. They are derived, never random, so that a repeat is the same request."""

import hashlib
import hmac
import json
import re
from typing import Any

from app.domain.ids import BatchId, LeaseId


def launch_token(key: bytes, installation: str, lease: LeaseId, n: int) -> str:
    """64 hexadecimal characters (EC2's ClientToken holds at most 64 ASCII characters)."""
    return hmac.new(key, f"{installation}/{lease}/{n}".encode(), hashlib.sha256).hexdigest()


def batch_token(key: bytes, installation: str, batch: BatchId) -> str:
    """64 hexadecimal characters: the token of the one create call of a launch batch."""
    return hmac.new(key, f"batch/{installation}/{batch}".encode(), hashlib.sha256).hexdigest()


def volume_token(installation: str, volume_id: str) -> str:
    """64 hexadecimal characters: the client token of the call that creates a volume's disk."""
    return hashlib.sha256(f"volume/{installation}/{volume_id}".encode()).hexdigest()


def disk_name(volume_id: str) -> str:
    """Name of a volume's disk at clouds where the name makes the creation idempotent (Compute Engine, Azure)."""
    return _NAME_PREFIX + volume_id.replace("_", "-")


_NAME_PREFIX = "gpulease-"
_NAME_DIGITS = 40
_LAUNCH_IDENTITY = re.compile(rf"[0-9a-f]{{64}}|{_NAME_PREFIX}[0-9a-f]{{{_NAME_DIGITS}}}")


def launch_name(token: str) -> str:
    """Name of the launched VM at clouds where the name makes the launch idempotent (Compute Engine, Azure).

    49 characters: Compute Engine allows 63, Azure 64 for a Linux VM and 63 for its host name.
    """
    return _NAME_PREFIX + token[:_NAME_DIGITS]


def is_genuine(identity: str | None, token: str) -> bool:
    """Whether the launch with this token created the VM.

    `identity`: the VM's client token (EC2) or its name (Compute Engine, Azure). A VM with copied tags has another one.
    """
    return identity in (token, launch_name(token))


def is_launch_identity(identity: str | None) -> bool:
    """Whether a launch of gpulease created the VM, with any token key and whatever tags the VM has now."""
    return identity is not None and _LAUNCH_IDENTITY.fullmatch(identity) is not None


def host_key_token(key: bytes, installation: str, lease: LeaseId, n: int) -> str:
    """64 hexadecimal characters. The VM of one attempt may report its SSH host keys once with this token."""
    return hmac.new(key, f"host-keys/{installation}/{lease}/{n}".encode(), hashlib.sha256).hexdigest()


def host_key_hash(token: str) -> bytes:
    """The stored form of a host key token: SHA-256. The token has 256 bits, so no salt is needed."""
    return hashlib.sha256(token.encode()).digest()


def agent_token(key: bytes, installation: str, lease: LeaseId, n: int) -> str:
    """64 hexadecimal characters. The agent in the VM of one attempt reports with this token, and can do nothing else."""
    return hmac.new(key, f"agent/{installation}/{lease}/{n}".encode(), hashlib.sha256).hexdigest()


def agent_hash(token: str) -> bytes:
    """The stored form of an agent token: SHA-256. The token has 256 bits, so no salt is needed."""
    return hashlib.sha256(token.encode()).digest()


def slot_secret(key: bytes, installation: str, batch: BatchId) -> str:
    """64 hexadecimal characters: the secret in the user data of a launch batch. See `slot_token`."""
    return hmac.new(key, f"slots/{installation}/{batch}".encode(), hashlib.sha256).hexdigest()


def slot_token(secret: str, purpose: str, slot: int | str) -> str:
    """64 hexadecimal characters: the token of one VM of a launch batch, which the VM derives in the same way.

    `purpose`: `host-keys` or `agent`. `slot`: the VM's launch index at EC2, its name at Compute Engine.
    """
    return hmac.new(secret.encode(), f"{purpose}/{slot}".encode(), hashlib.sha256).hexdigest()


def batch_key(shared: dict[str, Any]) -> str:
    """64 hexadecimal characters over everything that the VMs of one create call share, as canonical JSON."""
    return hashlib.sha256(_canonical(shared).encode()).hexdigest()


def params_hash(params: dict[str, Any]) -> str:
    """16 hexadecimal characters over the canonical JSON of the launch parameters."""
    return hashlib.sha256(_canonical(params).encode()).hexdigest()[:16]


def _canonical(content: dict[str, Any]) -> str:
    return json.dumps(content, sort_keys=True, separators=(",", ":"), ensure_ascii=True, default=str)
