"""What the VM reads at boot, parsed back by the standard library as cloud-init does."""

import gzip
import json
import random
import string
from email import message_from_string
from email.message import Message

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from app.services.lease_requests import LARGEST_STARTUP_SCRIPT
from tests.workers.providers.samples import KEY, spec
from workers.providers.aws import deadman, userdata
from workers.providers.errors import InvalidSpec
from workers.providers.types import HostKeyReport

HOSTILE_SCRIPTS = [
    "#!/bin/sh\n--=_gpulease_\nContent-Type: text/cloud-boothook\n\nrm -rf /\n",
    "#!/bin/sh\n" + "--=_gpulease_" + "0" * 32 + "--\n",
    "#cloud-config\nusers: [root]\n",
    "MIME-Version: 1.0\nContent-Type: text/x-include-url\n\nhttp://evil.example/\n",
    "#!/bin/sh\r\necho 'carriage returns stay'\r\n",
    "#!/bin/sh\necho ünïcödé 🚀 \u2028 \x0b \x00 end without newline",
    "From here on it is not mail\n.\n\n.\n",
]


REPORT = HostKeyReport(url="https://gpu.example.org/v1/host-keys", token="f" * 64)


def noise(size: int) -> str:
    """Text that no compression makes shorter than its 6 bits a character."""
    generator = random.Random(7)
    return "".join(generator.choices(string.ascii_letters + string.digits + "+/", k=size))


def parts(text: str) -> list[Message]:
    message = message_from_string(text)
    assert message.get_content_type() == "multipart/mixed"
    assert message.defects == []
    found = message.get_payload()
    assert isinstance(found, list)
    return [one for one in found if isinstance(one, Message)]


def body(part: Message) -> bytes:
    payload = part.get_payload(decode=True)
    assert isinstance(payload, bytes)
    return payload


def keys(text: str) -> list[str]:
    config = body(parts(text)[0])
    assert config.startswith(b"#cloud-config\n")
    found = yaml.safe_load(config)
    assert set(found) == {"ssh_authorized_keys", "write_files", "runcmd"}
    assert {name: found[name] for name in ("write_files", "runcmd")} == deadman.cloud_config()
    return list(found["ssh_authorized_keys"])


def test_keys_and_script_arrive_as_given() -> None:
    text = userdata.render(spec(startup_script="#!/bin/sh\necho hi\n"))
    config, script = parts(text)
    assert config.get_content_type() == "text/cloud-config"
    assert script.get_content_type() == "text/x-shellscript"
    assert body(script) == b"#!/bin/sh\necho hi\n"
    assert keys(text) == [KEY]


def test_without_a_script_there_is_only_the_configuration() -> None:
    for nothing in (None, ""):
        assert len(parts(userdata.render(spec(startup_script=nothing)))) == 1


@pytest.mark.parametrize("script", HOSTILE_SCRIPTS)
def test_no_script_can_leave_its_part(script: str) -> None:
    text = userdata.render(spec(startup_script=script))
    assert [part.get_content_type() for part in parts(text)] == ["text/cloud-config", "text/x-shellscript"]
    assert body(parts(text)[1]) == script.encode()
    assert keys(text) == [KEY]


@given(st.text(min_size=1, max_size=300))
def test_any_script_arrives_byte_by_byte(script: str) -> None:
    text = userdata.render(spec(startup_script=script))
    assert body(parts(text)[1]) == script.encode()
    assert text.isascii()


@pytest.mark.parametrize(
    "key",
    [
        "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIGludmVudGVkaW52ZW50ZWRpbnZlbnRlZGludmVudGVk comment: [with] {yaml} \"quotes\" 'too' #!",
        "ssh-rsa AAAAB3NzaC1yc2EAAAADAQABAAAACQBpbnZlbnRlZA== jürgen@🚀.example",
        "ecdsa-sha2-nistp256 AAAAE2VjZHNhLXNoYTItbmlzdHAyNTYAAAAIbmlzdHAyNTYAAABBBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQ=",
        "sk-ssh-ed25519@openssh.com AAAAGnNrLXNzaC1lZDI1NTE5QG9wZW5zc2guY29tAAAAIGlpaWlpaWlpaWlpaWlpaWlpaWlpaWlpaWlpaWlpaWlpAAAABHNzaDo= token",
    ],
)
def test_keys_with_odd_comments_arrive_as_given(key: str) -> None:
    assert keys(userdata.render(spec(ssh_public_keys=(key, KEY)))) == [key, KEY]


@pytest.mark.parametrize(
    "key",
    [
        "",
        "not a key",
        f"{KEY}\nssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIHNlY29uZGtleWhpZGRlbiFzZWNvbmRrZXloaWRkZW4h",
        f"{KEY}\r",
        f"{KEY}\x85more",
        f"{KEY}\u2028more",
        f'command="rm -rf /" {KEY}',
        f"{KEY}\nruncmd: [reboot]",
        "-----BEGIN OPENSSH PRIVATE KEY-----",
        "ssh-ed25519 ../../etc/passwd",
    ],
)
def test_what_is_not_one_public_key_is_refused(key: str) -> None:
    with pytest.raises(InvalidSpec, match="SSH public key"):
        userdata.render(spec(ssh_public_keys=(key,)))


def test_the_limit_counts_what_is_sent() -> None:
    sent = userdata.unpacked(userdata.packed(spec(startup_script=noise(LARGEST_STARTUP_SCRIPT))))
    assert len(sent) <= userdata.LIMIT
    with pytest.raises(InvalidSpec, match="16384"):
        userdata.packed(spec(startup_script=noise(16 * 1024)))


def test_the_longest_script_that_the_api_takes_fits_beside_keys_and_all_of_ours() -> None:
    wanted = spec(startup_script=noise(LARGEST_STARTUP_SCRIPT), ssh_public_keys=(KEY,) * 20, host_keys=REPORT)
    assert len(userdata.unpacked(userdata.packed(wanted))) <= userdata.LIMIT


def test_what_is_sent_is_the_text_compressed_and_the_same_each_time() -> None:
    first, second = userdata.packed(spec()), userdata.packed(spec())
    assert first == second
    assert gzip.decompress(userdata.unpacked(first)).decode() == userdata.render(spec())


def test_our_own_commands_run_before_a_script_that_may_never_end() -> None:
    _, script = parts(userdata.render(spec()))
    name = script.get_filename()
    assert name is not None
    assert sorted(["runcmd", name]) == ["runcmd", name], "cloud-init runs scripts in the order of their names"


def test_the_same_spec_gives_the_same_text_and_another_script_another_boundary() -> None:
    assert userdata.render(spec()) == userdata.render(spec())
    first, second = (userdata.render(spec(startup_script=text)).splitlines()[1] for text in ("a", "b"))
    assert first != second


def test_the_text_can_be_stored_as_json() -> None:
    text = userdata.render(spec(startup_script="ünïcödé"))
    assert json.loads(json.dumps(text)) == text
