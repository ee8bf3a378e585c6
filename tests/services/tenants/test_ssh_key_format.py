"""What the API stores of a key is what it has checked: OpenSSH reads it, and every adapter takes it."""

import shutil
import subprocess
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa

from app.domain.ssh_keys import fingerprint, split_key
from app.services.leases.host_keys import host_public_key
from app.services.tenants.ssh_key_format import ssh_public_key
from tests.services.leases.test_requests import line, security_key
from workers.providers.common import ssh_keys

ED25519 = line(ed25519.Ed25519PrivateKey.from_private_bytes(b"k" * 32))
NUMBERS = ec.derive_private_key(7, ec.SECP256R1())
KEYS = {
    "ed25519": ED25519,
    "rsa": line(rsa.generate_private_key(65537, 2048)),
    "ecdsa": line(NUMBERS),
    "security key": security_key(),
}
INSERTED = [",", "'", '"', "=", "-", ".", ";", "A", "é", "\t"]


def fingerprints(program: str, folder: Path, lines: list[str]) -> list[str]:
    """As `ssh-keygen -lf` prints them. Fails for a line that it does not read."""
    file = folder / "keys.pub"
    file.write_text("".join(f"{text}\n" for text in lines))
    done = subprocess.run([program, "-lf", str(file)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return [text.split()[1] for text in done.stdout.splitlines()]


def accepted(text: str) -> str | None:
    try:
        return ssh_public_key(text)
    except ValueError:
        return None


@pytest.mark.parametrize("key", KEYS.values(), ids=KEYS)
def test_any_mutation_is_refused_or_is_a_key_that_openssh_and_the_adapters_read(key: str, tmp_path: Path) -> None:
    """At each position of the type and the base64 text: a character more, another one, one less."""
    text = " ".join(split_key(key)[:2])
    mutations = {
        text[:n] + one + text[n + cut :] for n in range(len(text)) for cut in (0, 1) for one in ["", *INSERTED]
    }
    stored = {found for mutation in mutations for tail in ("", " me@host") if (found := accepted(mutation + tail))}
    assert all(accepted(found) == found for found in stored)
    ssh_keys.check(stored)
    lines = sorted(stored)
    assert text in lines
    if program := shutil.which("ssh-keygen"):
        assert fingerprints(program, tmp_path, lines) == [fingerprint(found) for found in lines]


@pytest.mark.parametrize("after", [",", ", me@host", ";", '"', "'", "=", "\\", ",AAAA", "-", "%"])
def test_text_right_behind_the_base64_is_refused(after: str) -> None:
    with pytest.raises(ValueError, match="base64"):
        ssh_public_key(ED25519 + after)
    with pytest.raises(ValueError, match="base64"):
        host_public_key(ED25519 + after)


def test_unused_bits_are_stored_as_zero() -> None:
    """Base64 text of 19 bytes ends in a character of which four bits count for nothing."""
    key = security_key()
    kind, blob, _ = split_key(key)
    alphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/"
    last = blob.rstrip("=")[-1]
    padding = blob[len(blob.rstrip("=")) :]
    assert padding, "the test needs a key with unused bits"
    other = alphabet[alphabet.index(last) + 1]
    assert ssh_public_key(f"{kind} {blob.rstrip('=')[:-1]}{other}{padding} me") == f"{key} me"
