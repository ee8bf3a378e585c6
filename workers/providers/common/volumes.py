"""What adapters share about volumes: the check before a disk is attached or deleted, and the program that mounts disks.

The program formats a disk only when it can read that the disk is blank: `blkid -p` finds nothing (exit status 2), and the
first MiB holds zeros. blkid has the same status for a disk that it cannot read.
"""

import shlex
from collections.abc import Callable
from typing import Any

from workers.providers.common.ssh_keys import USER
from workers.providers.errors import NotFound, NotReady
from workers.providers.types import CloudVolume, LaunchSpec, VolumeSpec

PATH = "/usr/local/sbin/gpulease-volumes"
_WAIT_SECONDS = 5.0

Device = Callable[[VolumeSpec], str]
"""Where the VM finds the disk of a volume once it is attached: one path, or several with spaces between them."""

_PROGRAM = f"""#!/bin/sh
# Mounts the volumes of this VM once their disks are attached. Formats blank disks alone.
volume() {{
n=0
until for d in $1; do [ -b "$d" ] && break; done; do n=$((n+1)); [ $n -lt 3600 ] || return; sleep 1; done
blkid -p "$d"
[ $? = 2 ] && cmp -sn 1048576 "$d" /dev/zero && mkfs.ext4 -q "$d"
mkdir -p "$2"
grep -q "^$d " /etc/fstab || echo "$d $2 auto nofail 0 2" >>/etc/fstab
mount "$2" && chown {USER}: "$2"
}}
"""


def files(spec: LaunchSpec, device: Device) -> list[dict[str, Any]]:
    """The program that the VM needs; none for a VM without volumes."""
    if not spec.volumes:
        return []
    lines = "".join(shlex.join(["volume", device(volume), volume.path]) + "\n" for volume in spec.volumes)
    return [{"path": PATH, "permissions": "0700", "content": _PROGRAM + lines}]


def commands(spec: LaunchSpec) -> list[list[str]]:
    """The command that waits for the disks and mounts them. The start-up script runs after it."""
    return [[PATH]] if spec.volumes else []


def device_name(volume: VolumeSpec) -> str:
    """The name of the device of a volume, at clouds that show a name to the VM."""
    return f"gpulease-volume-{volume.index}"


def is_attached(disk: CloudVolume | None, volume_id: str, vm: str | None) -> bool:
    """Whether the VM has the disk; False for a disk that no VM has. `vm`: the cloud's name of it, None for no VM.

    Raises NotFound for a disk that the cloud does not show, and NotReady for one that another VM has.
    """
    if disk is None:
        raise NotFound(f"the cloud does not show volume {volume_id}", code="VolumeNotFound")
    if disk.attached_to is None or disk.attached_to == vm:
        return disk.attached_to is not None
    message = f"volume {volume_id} is still attached to {disk.attached_to}"
    raise NotReady(message, code="VolumeInUse", retry_after=_WAIT_SECONDS)
