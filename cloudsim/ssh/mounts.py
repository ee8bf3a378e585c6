"""The files on the volumes of a simulated VM. A volume keeps them when its VM ends.

The program in the VM's user data names the device and the path of each volume. A path without its disk holds nothing.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import PurePosixPath

from cloudsim.arm.catalog import PROVIDER as AZURE
from cloudsim.ec2.catalog import PROVIDER as AWS
from cloudsim.gce.catalog import PROVIDER as GCP
from cloudsim.user_data import files
from cloudsim.world import Resource, ResourceKind, Vm, World

_PROGRAM = "/usr/local/sbin/gpulease-volumes"
_LINE = re.compile(r"^volume (.+)$", re.MULTILINE)
_FILES = "files"
_LONGEST = 1 << 16


@dataclass(frozen=True, slots=True)
class Mounts:
    """The volumes that a VM has mounted."""

    world: World
    vm: Vm

    def read(self, path: str) -> str | None:
        """The text of a file, or None."""
        for volume, below in self._volumes(path):
            texts: dict[str, str] = volume.spec.get(_FILES, {})
            return texts.get(below)
        return None

    def write(self, path: str, text: str) -> bool:
        """Whether the path is on a volume, which holds the text from now on."""
        for volume, below in self._volumes(path):
            volume.spec[_FILES] = {**volume.spec.get(_FILES, {}), below: text[:_LONGEST]}
            self.world.touch_resource(volume.id)
            return True
        return False

    def _volumes(self, path: str) -> Iterator[tuple[Resource, str]]:
        """The volume that holds a path, and the path on it."""
        devices = {_DEVICES[self.vm.provider](volume): volume for volume in self._attached()}
        program = files(self.vm).get(_PROGRAM, b"").decode(errors="replace")
        for line in _LINE.findall(program):
            paths, mount = shlex.split(line)
            volume = next((devices[device] for device in paths.split() if device in devices), None)
            if volume is not None and PurePosixPath(path).is_relative_to(mount) and path != mount:
                yield volume, str(PurePosixPath(path).relative_to(mount))

    def _attached(self) -> Iterator[Resource]:
        for resource_id in self.vm.resources:
            resource = self.world.resources.get(resource_id)
            if resource is not None and resource.kind is ResourceKind.VOLUME and resource.vm_id == self.vm.id:
                yield resource


_DEVICES: Mapping[str, Callable[[Resource], str]] = {
    AWS: lambda volume: f"/dev/disk/by-id/nvme-Amazon_Elastic_Block_Store_{volume.id.replace('-', '')}",
    AZURE: lambda volume: f"/dev/disk/azure/scsi1/lun{volume.spec['lun']}",
    GCP: lambda volume: f"/dev/disk/by-id/google-{volume.spec.get('device')}",
}
"""Where the system of a VM shows an attached disk."""
