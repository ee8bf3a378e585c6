"""What a part needs of the machine: root, Debian's programs, namespaces of its own."""

import os
import shutil
import subprocess
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType

PACKAGES: Mapping[str, str] = MappingProxyType(
    {
        "initdb": "postgresql-15",
        "redis-server": "redis-server",
        "pgbouncer": "pgbouncer",
        "haproxy": "haproxy",
        "ip": "iproute2",
        "sshd": "openssh-server",
        "ssh": "openssh-client",
        "ssh-keygen": "openssh-client",
        "scp": "openssh-client",
        "buildah": "buildah",
        "debootstrap": "debootstrap",
        "runc": "runc",
        "mpirun": "openmpi-bin",
        "ansible": "ansible-core",
        "ansible-inventory": "ansible-core",
        "scontrol": "slurm-client",
    }
)
"""Program -> the Debian package that brings it."""

POSTGRESQL = Path("/usr/lib/postgresql/15/bin")
_PATH = os.pathsep.join([str(POSTGRESQL), "/usr/sbin", "/sbin", os.environ.get("PATH", os.defpath)])


def find_program(name: str) -> str | None:
    """Its path, or None. Debian keeps PostgreSQL's own programs out of PATH."""
    return shutil.which(name, path=_PATH)


def program(name: str) -> str:
    path = find_program(name)
    if path is None:
        raise FileNotFoundError(f"{name} (package {PACKAGES.get(name, name)})")
    return path


def can_unshare() -> bool:
    """Whether network namespaces can be made."""
    return subprocess.run([program("unshare"), "--net", "true"], capture_output=True, check=False).returncode == 0


@dataclass(frozen=True)
class Needs:
    """`programs` by name; `namespaces`: of the network. Everything here starts servers as other users, so it needs root."""

    programs: tuple[str, ...] = ()
    namespaces: bool = False

    def missing(
        self,
        *,
        uid: int,
        find: Callable[[str], str | None] = find_program,
        may_unshare: Callable[[], bool] = can_unshare,
    ) -> list[str]:
        """What is not there, in words that follow "because"; empty when the part can be tried."""
        absent = sorted({PACKAGES[name] for name in self.programs if find(name) is None})
        reasons = []
        if uid != 0:
            reasons.append("it needs root, which starts each server as a user of its own")
        if absent:
            reasons.append(f"Debian's packages are missing: apt-get install {' '.join(absent)}")
        if self.namespaces and uid == 0 and not may_unshare():
            reasons.append("this machine permits no network namespaces")
        return reasons
