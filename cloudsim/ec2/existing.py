"""What an operator has made beforehand in each simulated account: roles, profiles, keys and placement groups."""

from __future__ import annotations

from types import MappingProxyType

INSTANCE_PROFILES = frozenset({"gpulease-node"})
PLACEMENT_GROUPS = frozenset({"gpulease-cluster"})
KMS_KEYS = frozenset({"alias/gpulease", "1234abcd-12ab-34cd-56ef-1234567890ab"})
DISABLED_KMS_KEYS = frozenset({"alias/disabled"})
EXTERNAL_IDS = MappingProxyType({"gpulease-shared": "customer-7f3a"})
"""Roles whose trust policy requires an external id."""


def is_key(key: str) -> bool:
    """Whether a key id, an alias or an ARN of either names a key that exists."""
    return _key_name(key) in KMS_KEYS | DISABLED_KMS_KEYS


def is_disabled_key(key: str) -> bool:
    """As `is_key`, for a key that may not be used."""
    return _key_name(key) in DISABLED_KMS_KEYS


def _key_name(key: str) -> str:
    return key.rpartition(":")[2].removeprefix("key/")


def profile_name(profile: dict[str, str]) -> str:
    """The name in `IamInstanceProfile`, which holds a name or an ARN."""
    return profile.get("Name") or profile.get("Arn", "").rpartition("/")[2]
