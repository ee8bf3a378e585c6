"""What an operator has made beforehand: managed identities and disk encryption sets, in any resource group."""

from __future__ import annotations

_NAMES = frozenset({"gpulease-node", "gpulease-disks"})


def exists(resource_id: str) -> bool:
    """Whether there is an identity or encryption set of this id."""
    return resource_id.rpartition("/")[2] in _NAMES
