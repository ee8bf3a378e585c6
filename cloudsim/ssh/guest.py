"""What the user data of a simulated VM ask its first boot to do: accept SSH keys, and report host keys. Pure."""

from __future__ import annotations

import base64
import gzip
import json
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from email import message_from_bytes
from typing import Any

from cloudsim.arm.facts import PROVIDER as AZURE
from cloudsim.ec2.facts import PROVIDER as AWS
from cloudsim.gce.facts import PROVIDER as GCP
from cloudsim.world import Vm

_GZIP = b"\x1f\x8b"
_PROGRAM = "/usr/local/sbin/gpulease-host-keys"
"""The program that reports host keys. Other files of the user data may be the tenant's own text."""
_HEREDOC = re.compile(rf"^put 0700 {_PROGRAM} <<'END'\n(.*?)^END$", re.DOTALL | re.MULTILINE)
_REPORT = re.compile(r'^URL, TOKEN = "(https?://[^"\\]+)", "([0-9a-f]+)"$', re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Guest:
    """The login of a VM. `report`: URL and token for its host keys, None where the user data ask for no report."""

    user: str
    authorized_keys: tuple[str, ...]
    report: tuple[str, str] | None


def guest(vm: Vm) -> Guest:
    """The guest of a VM. User data of another form give no keys and no report."""
    try:
        return _READERS[vm.provider](vm.spec)
    except (ValueError, KeyError, TypeError, OSError, EOFError):
        return Guest("", (), None)


def _aws(spec: Mapping[str, Any]) -> Guest:
    """Ubuntu's images: cloud-init gives the keys to the user `ubuntu`."""
    return _cloud_init("ubuntu", str(spec["user_data"]))


def _azure(spec: Mapping[str, Any]) -> Guest:
    return _cloud_init(spec["properties"]["osProfile"]["adminUsername"], str(spec["custom_data"]))


def _gcp(spec: Mapping[str, Any]) -> Guest:
    metadata = spec["metadata"]
    logins = [line.partition(":") for line in metadata["ssh-keys"].splitlines()]
    files = (base64.b64decode(text).decode(errors="replace") for text in _HEREDOC.findall(metadata["startup-script"]))
    user = logins[0][0] if logins else ""
    return Guest(user, tuple(key for name, _, key in logins if name == user), _report(files))


def _cloud_init(user: str, encoded: str) -> Guest:
    raw = base64.b64decode(encoded)
    message = message_from_bytes(gzip.decompress(raw) if raw.startswith(_GZIP) else raw)
    configs = [json.loads(text.partition("\n")[2]) for text in _cloud_configs(message)]
    keys = tuple(str(key) for config in configs for key in config.get("ssh_authorized_keys", ()))
    files = (file for config in configs for file in config.get("write_files", ()))
    return Guest(user, keys, _report(str(file["content"]) for file in files if file["path"] == _PROGRAM))


def _cloud_configs(message: Any) -> Iterator[str]:
    """The parts that cloud-init reads as configuration. A start-up script is a part of another type."""
    for part in message.walk():
        body = part.get_payload(decode=True) if part.get_content_type() == "text/cloud-config" else None
        if isinstance(body, bytes):
            yield body.decode(errors="replace")


def _report(files: Iterator[str]) -> tuple[str, str] | None:
    for content in files:
        found = _REPORT.search(content)
        if found is not None:
            return found[1], found[2]
    return None


_READERS: Mapping[str, Callable[[Mapping[str, Any]], Guest]] = {AWS: _aws, AZURE: _azure, GCP: _gcp}
