"""What the first boot of a VM makes of its user data: as cloud-init reads them, or as Google's guest agent runs them. Pure.

The rules of cloud-init are those of `cloudinit/user_data.py` and `cloudinit/handlers/__init__.py`
(github.com/canonical/cloud-init, the same in 22.4.2 and in August 2026). `make cloud-init` compares both readers.
"""

from __future__ import annotations

import base64
import gzip
import hashlib
import hmac
import json
import re
import shlex
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from email import message_from_string
from ipaddress import ip_address
from typing import Any
from urllib.parse import urlsplit

from cloudsim.arm.catalog import PROVIDER as AZURE
from cloudsim.ec2.catalog import PROVIDER as AWS
from cloudsim.gce.catalog import PROVIDER as GCP
from cloudsim.world import Vm

_GZIP = b"\x1f\x8b"
_MOST_BYTES = 1 << 20
_SLOT_TOKENS = "/usr/local/sbin/gpulease-slot-tokens"
"""The program that derives the tokens of one VM of a launch. It is done for the VM by cloudsim."""
_SECRET = re.compile(rb'^SECRET = "([0-9a-f]+)"\nFILES = (\{.*\})$', re.MULTILINE)
_HEREDOC = re.compile(r"^put \d+ (\S+) <<'END'\n(.*?)^END$", re.DOTALL | re.MULTILINE)

_PROGRAMS = "/usr/local/sbin/"
_UNITS = "/etc/systemd/system/"
_EXEC = re.compile(rb"^ExecStart=(\S+)", re.MULTILINE)

_COMMANDS = ("systemctl ", _PROGRAMS)
_CONFIG, _SCRIPT = "text/cloud-config", "text/x-shellscript"
PREFIXES = {
    "#include": "text/x-include-url",
    "#include-once": "text/x-include-once-url",
    "#!": _SCRIPT,
    "#cloud-config": _CONFIG,
    "#part-handler": "text/part-handler",
    "#cloud-boothook": "text/cloud-boothook",
    "#cloud-config-archive": "text/cloud-config-archive",
    "#cloud-config-jsonp": "text/cloud-config-jsonp",
    "## template: jinja": "text/jinja2",
}
"""Types by the first characters of a text."""
_BY_PREFIX = ("text/plain", "text/x-not-multipart", _SCRIPT)
"""Types of parts whose first characters decide what they are."""
_INCLUDES = ("text/x-include-url", "text/x-include-once-url")
_ARCHIVE = "text/cloud-config-archive"
_INCLUDE = re.compile(r"#include(-once)?", re.IGNORECASE)

Files = Mapping[str, bytes]
"""By path. The tenant's start-up script is among them."""


@dataclass(frozen=True, slots=True)
class FirstBoot:
    """What cloud-init has made of user data. `config`: of all parts, a key of a later part replaces the same key.

    `scripts`: bodies of the parts that are executed, by name, after the commands of `config`. `others`: types of further parts.
    """

    config: dict[str, Any] = field(default_factory=dict)
    scripts: dict[str, bytes] = field(default_factory=dict)
    others: list[str] = field(default_factory=list)


def files(vm: Vm) -> Files:
    """The files that the first boot writes, without the programs that it never starts. User data of another form have none."""
    try:
        written, commands = _READERS[vm.provider](vm.spec)
        return _with_tokens(vm, _started(written, commands))
    except (ValueError, KeyError, TypeError, OSError, EOFError):
        return {}


def _started(written: Files, commands: list[list[str]]) -> Files:
    """Programs run by the path in a command, or by the unit of that name. A timer starts its service."""
    words = {word for command in commands for word in command}
    stems = {word.removesuffix(".timer").removesuffix(".service") for word in words}
    units = {path: path.removeprefix(_UNITS).removesuffix(".service") for path in written if path.endswith(".service")}
    programs = (_EXEC.findall(written[path]) for path, stem in units.items() if stem in stems)
    running = words | {program.decode() for programs_of_file in programs for program in programs_of_file}
    return {path: text for path, text in written.items() if not path.startswith(_PROGRAMS) or path in running}


def _with_tokens(vm: Vm, written: Files) -> Files:
    """The files after the first boot of a VM that shares its user data with the other VMs of its launch."""
    program = _SECRET.search(written.get(_SLOT_TOKENS, b""))
    if program is None:
        return written
    slot = vm.name if vm.provider == GCP else str(vm.spec.get("launch_index", 0))
    changed = {}
    for path, purpose in json.loads(program[2]).items():
        token = hmac.new(program[1], f"{purpose}/{slot}".encode(), hashlib.sha256).hexdigest()
        changed[path] = written[path].replace(f"@{purpose}@".encode(), token.encode())
    return {**written, **changed}


def first_boot(encoded: str) -> FirstBoot:
    """Reads user data as cloud-init does. A configuration counts only as JSON, and a `merge_how` not at all.

    Raises ValueError, KeyError, TypeError, OSError or EOFError where cloud-init ends with an error, and for YAML.
    """
    raw = base64.b64decode(encoded)
    data = gzip.decompress(raw) if raw.startswith(_GZIP) else raw
    boot = FirstBoot()
    for number, (declared, name, body) in enumerate(_parts(data), start=1):
        kind = (declared in _BY_PREFIX and _kind_of(body)) or declared
        _check_further(kind, body)
        if kind == _CONFIG:
            boot.config.update(json.loads(body.partition(b"\n")[2]))
        elif kind == _SCRIPT:
            boot.scripts[name or f"part-{number:03}"] = body.replace(b"\r\n", b"\n")
        elif kind not in (*_INCLUDES, _ARCHIVE):
            boot.others.append(kind)
    return boot


def _check_further(kind: str, body: bytes) -> None:
    """Raises ValueError for a part with URLs, of which none answers here, and for one with parts of its own."""
    lines = [_INCLUDE.sub("", line, count=1).strip() for line in body.decode(errors="replace").splitlines()]
    urls = kind in _INCLUDES and [line for line in lines if line and not line.startswith("#")]
    if urls or (kind == _ARCHIVE and json.loads(body.partition(b"\n")[2])):
        raise ValueError(f"{kind}: further parts cannot be read")


def _parts(data: bytes) -> Iterator[tuple[str, str | None, bytes]]:
    """Type, name and body of each part."""
    if b"mime-version:" not in data[:4096].lower():
        yield "text/x-not-multipart", None, data
        return
    for part in message_from_string(data.decode()).walk():
        body = part.get_payload(decode=True)
        if part.get_content_maintype() != "multipart" and isinstance(body, bytes):
            yield part.get_content_type(), part.get_filename(), body


def _kind_of(body: bytes) -> str | None:
    """The type that the first characters name, the longest prefix first."""
    try:
        start = body.decode().lower().lstrip()
    except UnicodeDecodeError:
        return None
    return next(
        (PREFIXES[prefix] for prefix in sorted(PREFIXES, key=len, reverse=True) if start.startswith(prefix)), None
    )


def heredocs(script: str) -> Iterator[tuple[str, bytes]]:
    """Paths and contents of a start-up script of Compute Engine."""
    for path, text in _HEREDOC.findall(script):
        yield shlex.split(path)[0], base64.b64decode(text)


def _cloud_init(encoded: str) -> tuple[Files, list[list[str]]]:
    config = first_boot(encoded).config
    return {file["path"]: _content(file) for file in config.get("write_files", ())}, config.get("runcmd", [])


def _guest_agent(script: str) -> tuple[Files, list[list[str]]]:
    """Commands stand outside the texts of the files."""
    rest = _HEREDOC.sub("", script)
    return dict(heredocs(script)), [shlex.split(line) for line in rest.splitlines() if line.startswith(_COMMANDS)]


def _content(file: Mapping[str, Any]) -> bytes:
    """cloud-init's encodings: `b64`, `gzip` (bytes that JSON does not have) and both together."""
    text, encoding = str(file["content"]), str(file.get("encoding", ""))
    data = base64.b64decode(text) if "b64" in encoding or "base64" in encoding else text.encode()
    return gzip.decompress(data) if encoding.startswith("gz") and len(data) < _MOST_BYTES else data


_READERS: Mapping[str, Callable[[Mapping[str, Any]], tuple[Files, list[list[str]]]]] = {
    AWS: lambda spec: _cloud_init(str(spec["user_data"])),
    AZURE: lambda spec: _cloud_init(str(spec["custom_data"])),
    GCP: lambda spec: _guest_agent(spec["metadata"]["startup-script"]),
}


def is_near(config: Mapping[str, Any]) -> bool:
    """Whether reports to the `url` of a program's configuration stay on this machine. Without a URL nothing is sent."""
    url = config.get("url")
    host = urlsplit(url).hostname or "" if url is not None else "localhost"
    try:
        return host == "localhost" or ip_address(host).is_loopback
    except ValueError:
        return False
