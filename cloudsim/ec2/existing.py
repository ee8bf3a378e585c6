"""What an operator has made beforehand in each simulated account: roles, profiles, keys and placement groups."""

from __future__ import annotations

from types import MappingProxyType

INSTANCE_PROFILES = frozenset({"gpulease-node"})
PLACEMENT_GROUPS = frozenset({"gpulease-cluster"})
KMS_KEYS = frozenset({"alias/gpulease", "1234abcd-12ab-34cd-56ef-1234567890ab"})
EXTERNAL_IDS = MappingProxyType({"gpulease-shared": "customer-7f3a"})
"""Roles whose trust policy requires an external id."""


def is_key(key: str) -> bool:
    """Whether a key id, an alias or an ARN of either names a key that exists."""
    name = key.rpartition(":")[2].removeprefix("key/")
    return name in KMS_KEYS


def profile_name(profile: dict[str, str]) -> str:
    """The name in `IamInstanceProfile`, which holds a name or an ARN."""
    return profile.get("Name") or profile.get("Arn", "").rpartition("/")[2]
