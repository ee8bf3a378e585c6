"""The private keys of this machine with which a lease's VM accepts a login, by the fingerprints of their public keys."""

import base64
import binascii
import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from app.cli.errors import Json
from app.cli.render.output import at
from app.cli.ssh.target import quoted

_LARGEST_FILE = 32_768
_BEGIN, _END = "-----BEGIN OPENSSH PRIVATE KEY-----", "-----END OPENSSH PRIVATE KEY-----"
_MAGIC = b"openssh-key-v1\0"
_PARTS_BEFORE_KEYS = 3
"""Cipher, key derivation and its options stand before the number of keys (PROTOCOL.key of OpenSSH)."""


@dataclass(frozen=True)
class LeaseKey:
    """A public key that the lease's VM accepts."""

    fingerprint: str
    comment: str
    path: Path | None
    "The private key's file on this machine. The public key's file, if an agent or a device holds the private key."

    def line(self) -> str:
        """For people: fingerprint, comment and file."""
        return " ".join(filter(None, (self.fingerprint, self.comment, f"({self.path})" if self.path else "")))


def lease_keys(lease: Json, local: Mapping[str, Path]) -> list[LeaseKey]:
    """The keys of a lease's request, in its order. Lines that are no public key are left out."""
    keys = []
    for line in at(lease, "request.ssh_public_keys") or ():
        text = _fingerprint_of_line(str(line))
        if text is not None:
            keys.append(LeaseKey(text, " ".join(str(line).split()[2:]), local.get(text)))
    return keys


def identity_files(keys: list[LeaseKey], identity: Path | None) -> list[Path]:
    """The files that ssh offers: the one that the user named, else those of this machine that the lease accepts."""
    return [identity] if identity is not None else [key.path for key in keys if key.path is not None]


def identity_settings(files: list[Path]) -> list[tuple[str, str]]:
    """Lines of ssh's configuration. With a file, ssh offers no other key: servers close a login after a few."""
    if not files:
        return []
    paths = [("IdentityFile", quoted(path.expanduser().absolute())) for path in files]
    return [*paths, ("IdentitiesOnly", "yes")]


def login_advice(keys: list[LeaseKey], files: list[Path]) -> list[str]:
    """What a person can do after ssh ended with 255: which keys the VM accepts, and which of them this machine offered."""
    if not keys:
        return ["The lease has no SSH key, so nobody can log in: name one with --ssh-key when you create a lease."]
    lines = ["If the login was refused: the VM accepts these keys only.", *(f"  {key.line()}" for key in keys)]
    if files:
        return [*lines, f"ssh offered {', '.join(map(str, files))}; -i FILE offers another private key."]
    return [
        *lines,
        "No file in ~/.ssh has one of these keys: name its private key with -i FILE,",
        "or create a lease with a key of this machine: --ssh-key ~/.ssh/NAME.pub.",
    ]


def local_files(environ: Mapping[str, str]) -> dict[str, Path]:
    """The files of ~/.ssh by fingerprint. A private key counts before the public key of the same fingerprint."""
    home = environ.get("HOME")
    files: dict[str, Path] = {}
    if not home:
        return files
    try:
        paths = sorted(Path(home, ".ssh").iterdir())
    except OSError:
        return files
    for path in paths:
        text = _fingerprint_of_file(path)
        if text is None:
            continue
        private = path.with_suffix("") if path.suffix == ".pub" else path
        if private.is_file():
            files[text] = private
        else:
            files.setdefault(text, path)
    return files


def _fingerprint_of_file(path: Path) -> str | None:
    try:
        if not path.is_file() or path.stat().st_size > _LARGEST_FILE:
            return None
        text = path.read_text(encoding="utf-8").strip()
    except (OSError, UnicodeDecodeError):
        return None
    if text.startswith(_BEGIN):
        return _fingerprint_of_private(text)
    return _fingerprint_of_line(text) if path.suffix == ".pub" else None


def _fingerprint_of_line(line: str) -> str | None:
    """Of a public key, `type base64 comment`."""
    words = line.split()
    data = _decoded(words[1]) if len(words) > 1 else b""
    return _fingerprint(data) if data else None


def _fingerprint_of_private(text: str) -> str | None:
    """Of a private key in OpenSSH's format, whose public key is not encrypted."""
    data = _decoded("".join(text.removeprefix(_BEGIN).partition(_END)[0].split()))
    if not data.startswith(_MAGIC):
        return None
    start = len(_MAGIC)
    for _ in range(_PARTS_BEFORE_KEYS):
        start += 4 + int.from_bytes(data[start : start + 4])
    start += 4  # the number of keys, which is one
    size = int.from_bytes(data[start : start + 4])
    key = data[start + 4 : start + 4 + size]
    return _fingerprint(key) if key and len(key) == size else None


def _decoded(text: str) -> bytes:
    try:
        return base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        return b""


def _fingerprint(data: bytes) -> str:
    """SHA-256, as OpenSSH writes it."""
    return f"SHA256:{base64.b64encode(hashlib.sha256(data).digest()).decode().rstrip('=')}"
