"""Volumes: disks of a tenant that outlive the VMs that mount them. Their states, and where a VM may mount them."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import PurePosixPath
from typing import Any, Self


class VolumeState(StrEnum):
    """Where a volume is.

    `creating`: its cloud does not report the disk as ready yet. `available`: a lease may mount it, or mounts it now.
    `deleting`: its cloud does not confirm the deletion yet. `failed`: its cloud refused to create it. `lost`: its cloud
    has the disk no more, and nobody deleted it here.
    """

    CREATING = "creating"
    AVAILABLE = "available"
    DELETING = "deleting"
    DELETED = "deleted"
    FAILED = "failed"
    LOST = "lost"


ENDED = frozenset({VolumeState.DELETED, VolumeState.FAILED, VolumeState.LOST})
"""States without a disk: nothing is billed, the quota is returned, and the name is free."""
LIVE = frozenset(VolumeState) - ENDED

_S = VolumeState
TRANSITIONS: Mapping[VolumeState, frozenset[VolumeState]] = {
    _S.CREATING: frozenset({_S.AVAILABLE, _S.DELETING, _S.FAILED, _S.LOST}),
    _S.AVAILABLE: frozenset({_S.DELETING, _S.LOST}),
    _S.DELETING: frozenset({_S.DELETED}),
    _S.DELETED: frozenset(),
    _S.FAILED: frozenset(),
    _S.LOST: frozenset(),
}
"""From each state, the states that may be entered next."""

LARGEST_GIB = 16384
MOST_OF_LEASE = 8
"""Volumes of one lease."""
MOST_OF_TENANT = 1000
"""Live volumes of one tenant."""
LONGEST_PATH = 128
PATH = re.compile(r"(/[A-Za-z0-9_][A-Za-z0-9._-]*){1,6}")
PATH_RULE = (
    f"must be an absolute path such as /data, of at most {LONGEST_PATH} characters and six parts of letters, digits and ._- that "
    "do not begin with . or -"
)
SYSTEM_DIRECTORIES = frozenset(
    {
        "bin",
        "boot",
        "dev",
        "etc",
        "home",
        "lib",
        "lib32",
        "lib64",
        "libx32",
        "lost+found",
        "media",
        "opt",
        "proc",
        "root",
    }
    | {"run", "sbin", "snap", "sys", "tmp", "usr", "var"}
)
"""In the root directory. A volume is mounted neither there nor below."""
_PARENTS_ONLY = frozenset({"/mnt", "/srv"})
"""A volume is mounted below these, not there: images and clouds put disks of their own there."""


def sources(target: VolumeState) -> tuple[VolumeState, ...]:
    """The states from which `target` may be entered: the WHERE condition of a guarded UPDATE."""
    return tuple(state for state, targets in TRANSITIONS.items() if target in targets)


@dataclass(frozen=True, slots=True)
class VolumeMount:
    """A volume, by its name, and the directory where the VM mounts it."""

    name: str
    path: str

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> Self:
        """Reads `as_json`."""
        return cls(value["name"], value["path"])

    def as_json(self) -> dict[str, str]:
        """{name, path}."""
        return {"name": self.name, "path": self.path}


@dataclass(frozen=True, slots=True, kw_only=True)
class VolumePlace:
    """Where the disks of volumes are. A VM that mounts them runs there. `kinds`: the provider's names of their kinds, sorted."""

    account: str
    region: str
    zone: str
    kinds: tuple[str, ...] = ()

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> Self:
        """Reads `as_json`."""
        kinds = tuple(value.get("kinds", ()))
        return cls(account=value["account"], region=value["region"], zone=value["zone"], kinds=kinds)

    def as_json(self) -> dict[str, Any]:
        """{account, region, zone, kinds}."""
        return {"account": self.account, "region": self.region, "zone": self.zone, "kinds": list(self.kinds)}

    def holds(self, account: str, region: str, zone: str) -> bool:
        """Whether a VM there can mount the volumes."""
        return (self.account, self.region, self.zone) == (account, region, zone)

    def __str__(self) -> str:
        return f"{self.zone} of account {self.account}"


def path_problem(path: str) -> str | None:
    """Why no volume may be mounted at `path`. None: one may."""
    if len(path) > LONGEST_PATH or not PATH.fullmatch(path):
        return PATH_RULE
    first = PurePosixPath(path).parts[1]
    if first in SYSTEM_DIRECTORIES:
        return f"must not be in /{first}, which belongs to the operating system: use a path such as /data"
    if path in _PARENTS_ONLY:
        return f"must be below {path}: use a path such as {path}/data"
    return None


def mounts_problem(mounts: Sequence[VolumeMount]) -> str | None:
    """Why a lease cannot have these mounts together. None: it can."""
    for index, mount in enumerate(mounts):
        for earlier in mounts[:index]:
            if mount.name == earlier.name:
                return f"must not list {mount.name} twice"
            if mount.path == earlier.path or _below(mount.path, earlier.path) or _below(earlier.path, mount.path):
                return f"must have separate paths: {earlier.path} and {mount.path} overlap"
    return None


def _below(path: str, other: str) -> bool:
    return path.startswith(other + "/")
