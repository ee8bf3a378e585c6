"""Custom data: what cloud-init reads. No watch over the deadline is in it: a VM shut down from inside still bills."""

import base64
import hashlib

from workers.providers.azure.disks import volume_lun
from workers.providers.common import cloud_init
from workers.providers.types import LaunchSpec, VolumeSpec

LIMIT = 65_535 // 4 * 3
"""Bytes whose base64 fits (Compute API, `osProfile.customData`: 65,535)."""

_TAKEN = ("ssh-rsa ", "ssh-ed25519 ")


def packed(spec: LaunchSpec) -> str:
    """As `osProfile.customData` takes it. Raises InvalidSpec for a malformed key or when it is too long."""
    return cloud_init.packed(spec, {}, LIMIT, device=_device)


def login_keys(spec: LaunchSpec) -> list[str]:
    """The keys that Azure itself puts into the VM; cloud-init adds the others.

    Azure takes RSA and Ed25519 keys, and demands one where passwords are off: without one it gets a key that nobody holds.
    """
    return [key for key in spec.ssh_public_keys if key.startswith(_TAKEN)] or [_nobodys(spec.token)]


def _nobodys(token: str) -> str:
    """An Ed25519 public key that is a hash, so that its private key is known to nobody."""
    parts = (b"ssh-ed25519", hashlib.sha256(f"nobody/{token}".encode()).digest())
    blob = b"".join(len(field).to_bytes(4) + field for field in parts)
    return f"ssh-ed25519 {base64.b64encode(blob).decode()} nobody"


def _device(volume: VolumeSpec) -> str:
    """By the LUN, on sizes with SCSI and with NVMe (Azure docs, "Troubleshoot Linux VM device name changes")."""
    lun = volume_lun(volume)
    return f"/dev/disk/azure/scsi1/lun{lun} /dev/disk/azure/data/by-lun/{lun}"
