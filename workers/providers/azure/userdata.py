"""Custom data: what cloud-init reads. No watch over the deadline is in it: a VM shut down from inside still bills."""

from workers.providers import cloud_init
from workers.providers.base import InvalidSpec, LaunchSpec

LIMIT = 65_535 // 4 * 3
"""Bytes whose base64 fits (Compute API, `osProfile.customData`: 65,535)."""

_TAKEN = ("ssh-rsa ", "ssh-ed25519 ")


def packed(spec: LaunchSpec) -> str:
    """As `osProfile.customData` takes it. Raises InvalidSpec for a malformed key or when it is too long."""
    return cloud_init.packed(spec, {}, LIMIT)


def login_keys(spec: LaunchSpec) -> list[str]:
    """The keys that Azure itself puts into the VM; cloud-init adds the others.

    Azure takes RSA and Ed25519 keys, and demands one where passwords are off. Raises InvalidSpec when there is none.
    """
    keys = [key for key in spec.ssh_public_keys if key.startswith(_TAKEN)]
    if not keys:
        raise InvalidSpec("Azure needs one SSH key of type ssh-ed25519 or ssh-rsa", code="InvalidKey.Type")
    return keys
