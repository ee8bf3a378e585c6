"""What gpulease puts into the user data of a VM, in the form of each cloud: files, and cloud-init's configuration. Pure."""

from __future__ import annotations

import base64
import gzip
import hashlib
import hmac
import json
import re
import shlex
from collections.abc import Callable, Iterator, Mapping
from email import message_from_bytes
from ipaddress import ip_address
from typing import Any
from urllib.parse import urlsplit

from cloudsim.arm.facts import PROVIDER as AZURE
from cloudsim.ec2.facts import PROVIDER as AWS
from cloudsim.gce.facts import PROVIDER as GCP
from cloudsim.world import Vm

_GZIP = b"\x1f\x8b"
_MOST_BYTES = 1 << 20
_SLOT_TOKENS = "/usr/local/sbin/gpulease-slot-tokens"
"""The program that derives the tokens of one VM of a launch. It is done for the VM by cloudsim."""
_SECRET = re.compile(rb'^SECRET = "([0-9a-f]+)"\nFILES = (\{.*\})$', re.MULTILINE)
_HEREDOC = re.compile(r"^put \d+ (\S+) <<'END'\n(.*?)^END$", re.DOTALL | re.MULTILINE)

Files = Mapping[str, bytes]
"""By path. Files of the tenant are not among them."""


def files(vm: Vm) -> Files:
    """The files that the first boot writes. User data of another form have none."""
    try:
        return _with_tokens(vm, _READERS[vm.provider](vm.spec))
    except (ValueError, KeyError, TypeError, OSError, EOFError):
        return {}


def _with_tokens(vm: Vm, found: Files) -> Files:
    """The files after the first boot of a VM that shares its user data with the other VMs of its launch."""
    program = _SECRET.search(found.get(_SLOT_TOKENS, b""))
    if program is None:
        return found
    slot = vm.name if vm.provider == GCP else str(vm.spec.get("launch_index", 0))
    changed = {}
    for path, purpose in json.loads(program[2]).items():
        token = hmac.new(program[1], f"{purpose}/{slot}".encode(), hashlib.sha256).hexdigest()
        changed[path] = found[path].replace(f"@{purpose}@".encode(), token.encode())
    return {**found, **changed}


def cloud_configs(encoded: str) -> list[dict[str, Any]]:
    """The parts that cloud-init reads as configuration. A start-up script is a part of another type.

    Raises ValueError, KeyError, TypeError, OSError or EOFError for another form.
    """
    raw = base64.b64decode(encoded)
    message = message_from_bytes(gzip.decompress(raw) if raw.startswith(_GZIP) else raw)
    return [json.loads(text.partition("\n")[2]) for text in _bodies(message)]


def heredocs(script: str) -> Iterator[tuple[str, bytes]]:
    """Paths and contents of a start-up script of Compute Engine."""
    for path, text in _HEREDOC.findall(script):
        yield shlex.split(path)[0], base64.b64decode(text)


def _cloud_init(encoded: str) -> Files:
    found = (file for config in cloud_configs(encoded) for file in config.get("write_files", ()))
    return {file["path"]: _content(file) for file in found}


def _content(file: Mapping[str, Any]) -> bytes:
    """cloud-init's encodings: `b64`, `gzip` (bytes that JSON does not have) and both together."""
    text, encoding = str(file["content"]), str(file.get("encoding", ""))
    data = base64.b64decode(text) if "b64" in encoding or "base64" in encoding else text.encode()
    return gzip.decompress(data) if encoding.startswith("gz") and len(data) < _MOST_BYTES else data


def _bodies(message: Any) -> Iterator[str]:
    for part in message.walk():
        body = part.get_payload(decode=True) if part.get_content_type() == "text/cloud-config" else None
        if isinstance(body, bytes):
            yield body.decode(errors="replace")


_READERS: Mapping[str, Callable[[Mapping[str, Any]], Files]] = {
    AWS: lambda spec: _cloud_init(str(spec["user_data"])),
    AZURE: lambda spec: _cloud_init(str(spec["custom_data"])),
    GCP: lambda spec: dict(heredocs(spec["metadata"]["startup-script"])),
}


def is_near(config: Mapping[str, Any]) -> bool:
    """Whether reports to the `url` of a program's configuration stay on this machine. Without a URL nothing is sent."""
    url = config.get("url")
    host = urlsplit(url).hostname or "" if url is not None else "localhost"
    try:
        return host == "localhost" or ip_address(host).is_loopback
    except ValueError:
        return False
