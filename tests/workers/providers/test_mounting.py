"""The program that mounts volumes, run by a shell with tools that record what they are asked for."""

import os
import subprocess
from pathlib import Path

import pytest

from tests.workers.providers.samples import spec
from workers.providers.common import volumes
from workers.providers.types import VolumeSpec

TOOLS = {
    "mkfs.ext4": 'echo "mkfs $*" >>"$LOG"',
    "mount": 'echo "mount $*" >>"$LOG"',
    "chown": 'echo "chown $*" >>"$LOG"',
    "mkdir": 'echo "mkdir $*" >>"$LOG"',
    "blkid": "exit $BLKID",
    "sleep": "exit 0",
}
BLANK, FORMATTED, AMBIVALENT = 2, 0, 8
"""Exit statuses of `blkid -p` (blkid(8))."""


class Machine:
    """A VM with one disk, a file, which `[ -b` takes for a device."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.disk, self.fstab, self.log = (folder / name for name in ("disk", "fstab", "log"))
        self.fstab.touch()
        self.log.touch()
        tools = folder / "tools"
        tools.mkdir()
        for name, text in TOOLS.items():
            (tools / name).write_text(f"#!/bin/sh\n{text}\n")
            (tools / name).chmod(0o755)

    def boot(self, devices: str, blkid: int) -> list[str]:
        """What the tools were asked for."""
        mount = VolumeSpec(cloud_id="vol-1", path="/mnt/data", index=0)
        (file,) = volumes.files(spec(volumes=(mount,)), lambda _: devices)
        text = file["content"].replace("[ -b ", "[ -f ").replace("/etc/fstab", str(self.fstab)).replace("3600", "3")
        path = f"{self.folder / 'tools'}:{os.environ['PATH']}"
        environment = {"PATH": path, "LOG": str(self.log), "BLKID": str(blkid)}
        subprocess.run(["/bin/sh", "-c", text], env=environment, check=False, timeout=30)
        return self.log.read_text().splitlines()


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    return Machine(tmp_path)


def test_a_blank_disk_is_formatted_and_mounted_for_the_login_user(machine: Machine) -> None:
    machine.disk.write_bytes(bytes(2 << 20))
    assert machine.boot(str(machine.disk), BLANK) == [
        f"mkfs -q {machine.disk}",
        "mkdir -p /mnt/data",
        "mount /mnt/data",
        "chown ubuntu: /mnt/data",
    ]
    assert machine.fstab.read_text() == f"{machine.disk} /mnt/data auto nofail 0 2\n"


@pytest.mark.parametrize("status", [FORMATTED, AMBIVALENT, 4])
def test_a_disk_with_anything_on_it_is_mounted_as_it_is(machine: Machine, status: int) -> None:
    machine.disk.write_bytes(bytes(2 << 20))
    assert machine.boot(str(machine.disk), status)[0] == "mkdir -p /mnt/data"


@pytest.mark.parametrize("content", [b"data" + bytes(2 << 20), bytes(1 << 20)[:-1] + b"x", b""])
def test_a_disk_that_blkid_does_not_know_is_formatted_only_when_zeros_can_be_read(
    machine: Machine, content: bytes
) -> None:
    machine.disk.write_bytes(content)
    assert machine.boot(str(machine.disk), BLANK)[0] == "mkdir -p /mnt/data"


def test_the_second_boot_adds_no_line_and_formats_nothing(machine: Machine) -> None:
    machine.disk.write_bytes(bytes(2 << 20))
    machine.boot(str(machine.disk), BLANK)
    machine.boot(str(machine.disk), FORMATTED)
    assert len(machine.fstab.read_text().splitlines()) == 1
    assert [line for line in machine.log.read_text().splitlines() if line.startswith("mkfs")] == [
        f"mkfs -q {machine.disk}"
    ]


def test_the_first_device_that_is_there_is_taken(machine: Machine) -> None:
    machine.disk.write_bytes(bytes(2 << 20))
    machine.boot(f"/no/such/device {machine.disk}", FORMATTED)
    assert machine.fstab.read_text().startswith(f"{machine.disk} ")


def test_without_its_disk_nothing_is_formatted_or_mounted(machine: Machine) -> None:
    assert machine.boot("/no/such/device", BLANK) == []
