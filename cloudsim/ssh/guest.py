"""What the user data of a simulated VM ask its first boot to do: accept SSH keys, and report host keys. Pure."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from cloudsim.arm.catalog import PROVIDER as AZURE
from cloudsim.ec2.catalog import PROVIDER as AWS
from cloudsim.gce.catalog import PROVIDER as GCP
from cloudsim.user_data import files, first_boot
from cloudsim.world import Vm

_PROGRAM = "/usr/local/sbin/gpulease-host-keys"
"""The program that reports host keys. The start-up script is the tenant's own text."""
_REPORT = re.compile(r'^URL, TOKEN = "(https?://[^"\\]+)", "([0-9a-f]+)"$', re.MULTILINE)

Logins = tuple[str, tuple[str, ...]]
"""A user and the keys that open its account."""


@dataclass(frozen=True, slots=True)
class Guest:
    """The login of a VM. `report`: URL and token for its host keys, None where the user data ask for no report."""

    user: str
    authorized_keys: tuple[str, ...]
    report: tuple[str, str] | None


def guest(vm: Vm) -> Guest:
    """The guest of a VM. User data of another form give no keys and no report."""
    try:
        user, keys = _READERS[vm.provider](vm.spec)
    except (ValueError, KeyError, TypeError, OSError, EOFError):
        return Guest("", (), None)
    return Guest(user, keys, _report(files(vm).get(_PROGRAM, b"")))


def _aws(spec: Mapping[str, Any]) -> Logins:
    """Ubuntu's images: cloud-init gives the keys to the user `ubuntu`."""
    return "ubuntu", _cloud_init_keys(str(spec["user_data"]))


def _azure(spec: Mapping[str, Any]) -> Logins:
    return spec["properties"]["osProfile"]["adminUsername"], _cloud_init_keys(str(spec["custom_data"]))


def _gcp(spec: Mapping[str, Any]) -> Logins:
    logins = [line.partition(":") for line in spec["metadata"]["ssh-keys"].splitlines()]
    user = logins[0][0] if logins else ""
    return user, tuple(key for name, _, key in logins if name == user)


def _cloud_init_keys(encoded: str) -> tuple[str, ...]:
    return tuple(str(key) for key in first_boot(encoded).config.get("ssh_authorized_keys", ()))


def _report(program: bytes) -> tuple[str, str] | None:
    match = _REPORT.search(program.decode(errors="replace"))
    return (match[1], match[2]) if match is not None else None


_READERS: Mapping[str, Callable[[Mapping[str, Any]], Logins]] = {AWS: _aws, AZURE: _azure, GCP: _gcp}
