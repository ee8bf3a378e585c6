"""User data: what cloud-init reads, with the VM's own watch over its deadline, as long as EC2 allows."""

import base64

from workers.providers.aws import shutdown_timer
from workers.providers.common import cloud_init
from workers.providers.types import LaunchSpec, VolumeSpec

LIMIT = 16 * 1024
"""Bytes before EC2's own base64 (EC2 user guide, "Run commands when you launch an EC2 instance")."""

_METADATA = "http://169.254.169.254/latest"
_SLOT = f"""token = ask("PUT", "{_METADATA}/api/token", "X-aws-ec2-metadata-token-ttl-seconds", "60")
return ask("GET", "{_METADATA}/meta-data/ami-launch-index", "X-aws-ec2-metadata-token", token)"""
"""The VM's launch index (EC2 user guide, "Instance metadata categories")."""


def packed(spec: LaunchSpec) -> str:
    """Compressed and in base64, to be stored as JSON. Raises InvalidSpec for a malformed key or when it is too long."""
    return cloud_init.packed(spec, shutdown_timer.cloud_config(), LIMIT, device=_device, slot=_SLOT)


def unpacked(text: str) -> bytes:
    """The compressed bytes of `packed`, as boto3 wants them."""
    return base64.b64decode(text)


def render(spec: LaunchSpec) -> str:
    """The message, ASCII, the same for the same spec. Raises InvalidSpec for a malformed key."""
    return cloud_init.render(spec, shutdown_timer.cloud_config(), device=_device, slot=_SLOT)


def _device(volume: VolumeSpec) -> str:
    """By the serial number of the NVMe device, which is the volume's id (EBS user guide, "Identify the EBS device")."""
    return f"/dev/disk/by-id/nvme-Amazon_Elastic_Block_Store_{volume.cloud_id.replace('-', '')}"
