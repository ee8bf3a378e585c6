"""Tokens and parameter hashes of a launch: derived, never random, so that a repeat is the same request."""

import hashlib
import hmac
import json
from typing import Any

from app.domain.ids import LeaseId


def launch_token(key: bytes, installation: str, lease: LeaseId, n: int) -> str:
    """64 hexadecimal characters (EC2's ClientToken holds at most 64 ASCII characters)."""
    return hmac.new(key, f"{installation}/{lease}/{n}".encode(), hashlib.sha256).hexdigest()


def host_key_token(key: bytes, installation: str, lease: LeaseId, n: int) -> str:
    """64 hexadecimal characters: lets the VM of one attempt tell its SSH host keys, once."""
    return hmac.new(key, f"host-keys/{installation}/{lease}/{n}".encode(), hashlib.sha256).hexdigest()


def host_key_hash(token: str) -> bytes:
    """What is stored of such a token: SHA-256. It has 256 bits, so that no salt is needed."""
    return hashlib.sha256(token.encode()).digest()


def params_hash(params: dict[str, Any]) -> str:
    """16 hexadecimal characters over the canonical JSON of the launch parameters."""
    canonical = json.dumps(params, sort_keys=True, separators=(",", ":"), ensure_ascii=True)
    return hashlib.sha256(canonical.encode()).hexdigest()[:16]
