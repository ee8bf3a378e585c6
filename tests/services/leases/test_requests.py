"""The rules of a request that need more than a field's type."""

import base64
import struct
from itertools import count

import pytest
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

from app.domain.ssh_keys import LARGEST_SSH_KEYS
from app.services.leases.requests import LARGEST_STARTUP_SCRIPT, checked_script
from app.services.tenants.ssh_key_format import check_ssh_keys, ssh_public_key


def line(key: rsa.RSAPrivateKey | ed25519.Ed25519PrivateKey | ec.EllipticCurvePrivateKey) -> str:
    return key.public_key().public_bytes(Encoding.OpenSSH, PublicFormat.OpenSSH).decode()


def security_key() -> str:
    def text(part: bytes) -> bytes:
        return struct.pack(">I", len(part)) + part

    kind = b"sk-ssh-ed25519@openssh.com"
    raw = ed25519.Ed25519PrivateKey.generate().public_key().public_bytes(Encoding.Raw, PublicFormat.Raw)
    return f"{kind.decode()} {base64.b64encode(text(kind) + text(raw) + text(b'ssh:')).decode()}"


ED25519 = line(ed25519.Ed25519PrivateKey.generate())


def test_the_usual_kinds_of_keys_are_taken_as_they_are() -> None:
    keys = [
        ED25519,
        f"{ED25519} somebody@somewhere",
        f"{ED25519} {'é' * 256}",
        line(rsa.generate_private_key(65537, 2048)),
        line(ec.generate_private_key(ec.SECP256R1())),
        line(ec.generate_private_key(ec.SECP521R1())),
        security_key(),
    ]
    assert [ssh_public_key(f" {key}\n") for key in keys] == keys


@pytest.mark.parametrize(
    "text",
    [
        "",
        "ssh-ed25519",
        "ssh-ed25519 AAAA",
        f'from="10.0.0.1" {ED25519}',
        f"{ED25519}\n{ED25519}",
        f"{ED25519} a\x00b",
        ED25519.replace("ssh-ed25519", "ssh-rsa"),
        ED25519.replace("ssh-ed25519", "ssh-dss"),
        line(rsa.generate_private_key(65537, 1024)),  # noqa: S505 - it must be refused
        f"{ED25519} {'x' * 257}",
        f"{ED25519} {'é' * 257}",
    ],
    ids=map(str, count()),  # the keys are made anew in each process
)
def test_all_else_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"\w"):
        ssh_public_key(text)


def test_a_script_counts_in_bytes() -> None:
    head = "#!/bin/sh\n"
    assert checked_script(head.ljust(LARGEST_STARTUP_SCRIPT, "x"))
    with pytest.raises(ValueError, match=f"{LARGEST_STARTUP_SCRIPT}"):
        checked_script(head + "é" * (LARGEST_STARTUP_SCRIPT // 2))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "must begin with #!"),
        ("echo hi\n", r"must begin with #! .* such as #!/bin/bash$"),
        ("  #!/bin/bash\necho hi\n", "begins with blanks or an empty line"),
        ("\n#!/bin/bash\n", "begins with blanks or an empty line"),
        ("\r\n#!/bin/bash\r\n", "begins with blanks or an empty line"),
        ("\ufeff#!/bin/bash\n", "byte order mark"),
        ("\ufeff#cloud-config\n", "cloud-config is not executed"),
        ("#cloud-config\nruncmd: []\n", "cloud-config is not executed"),
        (" #CLOUD-CONFIG\n", "cloud-config is not executed"),
        ("#include\nhttp://x/\n", "must begin with #!"),
        ("# !/bin/sh\n", "must begin with #!"),
        ("#!\n", "absolute path"),
        ("#! \n/bin/sh\n", "absolute path"),
        ("#!bash\n", "absolute path"),
        ("#!/bin/" + "x" * 123, "127 bytes"),
    ],
)
def test_a_text_that_not_every_cloud_executes_is_refused(text: str, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        checked_script(text)


def test_line_ends_become_those_of_the_vm() -> None:
    assert checked_script("#!/bin/bash\r\necho a\r\r\n\r") == "#!/bin/bash\necho a\r\n\r"


def test_the_keys_of_a_request_are_limited_together() -> None:
    """By bytes, as they are stored: a comment may hold other characters than ASCII."""
    most = f"{ED25519} {'é' * 200}"
    count = LARGEST_SSH_KEYS // len(most.encode())
    assert check_ssh_keys([most] * count) == [most] * count
    with pytest.raises(ValueError, match=str(LARGEST_SSH_KEYS)):
        check_ssh_keys([most] * (count + 1))


def test_the_largest_usual_keys_fit_together() -> None:
    """Ten people with RSA keys of 4096 bits and a comment."""
    size = len("ssh-rsa ") + 4 * (4 + 7 + 4 + 3 + 4 + 1 + 512) // 3 + len(" somebody@somewhere.example.org")
    assert 10 * size < LARGEST_SSH_KEYS
