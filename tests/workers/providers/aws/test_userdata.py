"""The user data for EC2, parsed back by the standard library and a YAML reader."""

import base64
import gzip
import json
import random
import string
from email import message_from_string
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from app.services.leases.requests import LARGEST_STARTUP_SCRIPT
from tests.workers.providers.samples import KEY, spec
from workers.providers.aws import shutdown_timer, userdata
from workers.providers.common import cloud_init
from workers.providers.errors import InvalidSpec
from workers.providers.types import HostKeyReport

REPORT = HostKeyReport(url="https://gpu.example.org/v1/host-keys", token="f" * 64)


def noise(size: int) -> str:
    """Text that no compression makes shorter than its 6 bits a character."""
    generator = random.Random(7)
    return "".join(generator.choices(string.ascii_letters + string.digits + "+/", k=size))


def config(text: str) -> Any:
    """The only part of the message, read as YAML, as cloud-init does."""
    message = message_from_string(text)
    assert (message.get_content_type(), message.defects) == ("text/cloud-config", [])
    body = message.get_payload(decode=True)
    assert isinstance(body, bytes)
    assert body.startswith(b"#cloud-config\n")
    return yaml.safe_load(body)


def keys(text: str) -> list[str]:
    found = config(text)
    assert set(found) == {"ssh_authorized_keys", "write_files", "runcmd"}
    own = shutdown_timer.cloud_config()
    assert found["write_files"][: len(own["write_files"])] == own["write_files"]
    assert found["runcmd"][: len(own["runcmd"])] == own["runcmd"]
    return list(found["ssh_authorized_keys"])


def script(text: str) -> str:
    file = config(text)["write_files"][-1]
    assert (file["path"], file["encoding"]) == (cloud_init.STARTUP_SCRIPT, "gz+b64")
    return gzip.decompress(base64.b64decode(file["content"])).decode()


def test_without_a_script_there_is_only_what_is_ours() -> None:
    for nothing in (None, ""):
        text = userdata.render(spec(startup_script=nothing))
        assert config(text) == {**shutdown_timer.cloud_config(), "ssh_authorized_keys": [KEY]}


@given(st.text(min_size=1, max_size=300))
def test_any_script_arrives_byte_by_byte(text: str) -> None:
    rendered = userdata.render(spec(startup_script=text))
    assert (script(rendered), keys(rendered)) == (text, [KEY])
    assert rendered.isascii()


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
        userdata.packed(spec(startup_script=noise(24 * 1024)))


def test_the_longest_script_that_the_api_takes_fits_beside_keys_and_all_of_ours() -> None:
    wanted = spec(startup_script=noise(LARGEST_STARTUP_SCRIPT), ssh_public_keys=(KEY,) * 20, host_keys=REPORT)
    assert len(userdata.unpacked(userdata.packed(wanted))) <= userdata.LIMIT


def test_what_is_sent_is_the_text_compressed_and_the_same_each_time() -> None:
    first, second = userdata.packed(spec()), userdata.packed(spec())
    assert first == second
    assert gzip.decompress(userdata.unpacked(first)).decode() == userdata.render(spec())


def test_the_text_can_be_stored_as_json() -> None:
    text = userdata.render(spec(startup_script="ünïcödé"))
    assert json.loads(json.dumps(text)) == text
