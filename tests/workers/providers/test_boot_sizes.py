"""The largest start-up script and SSH keys that the API takes can be launched at each provider, whatever gpulease adds."""

import base64
import random
import string
from bisect import bisect_right
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

import pytest

from app.domain.boot_sizes import MOST_ALONE, MOST_IN_GROUP, VOLUMES, boot_size, check_boot_size
from app.domain.ssh_keys import LARGEST_SSH_KEYS, LONGEST_SSH_COMMENT, check_total, normal_form
from app.domain.volumes import LONGEST_PATH, MOST_OF_LEASE
from app.services.leases.requests import LARGEST_STARTUP_SCRIPT, checked_script
from cloudsim.user_data import first_boot
from tests.workers.providers.samples import GROUP, spec
from workers.providers.aws import userdata as aws
from workers.providers.azure import userdata as azure
from workers.providers.common import agent, slot_tokens
from workers.providers.gcp import userdata as gcp
from workers.providers.types import AgentConfig, HostKeyReport, LaunchSpec, VolumeSpec

URL = "https://gpulease.research-computing.faculty.university.example/apis/gpulease"
AGENT = AgentConfig(token="0123456789abcdef" * 4, url=URL, benchmark=True, sample_seconds=30)
AGENTS = {
    "none": None,
    "agent": replace(AGENT, benchmark=False),
    "with benchmark": AGENT,
    "console alone": replace(AGENT, url=None),
}
PACKED: dict[str, Callable[[LaunchSpec], Any]] = {"aws": aws.packed, "azure": azure.packed, "gcp": gcp.items}
PRINTABLE = string.ascii_letters + string.digits + string.punctuation + " \n\t"
TEXTS = {
    "of 64 characters": string.ascii_letters + string.digits + "+/",
    "printable": PRINTABLE,
    "with control characters": "".join(map(chr, range(1, 128))).replace("\r", ""),
    "of two bytes": "".join(map(chr, range(0x80, 0x800))),
    "of three bytes": "".join(map(chr, range(0x800, 0xD800))),
}
SEEDS = random.Random(11)


def rsa(bits: int, comment: str = "") -> str:
    parts = (b"ssh-rsa", b"\1\0\1", b"\0\xff" + SEEDS.randbytes(bits // 8 - 1))
    blob = b"".join(len(one).to_bytes(4) + one for one in parts)
    return normal_form(f"ssh-rsa {base64.b64encode(blob).decode()} {comment}".strip())


def comment(letters: str, size: int) -> str:
    """So many bytes of a comment."""
    made = ""
    while len((made + letters[-1]).encode()) <= size:
        made += SEEDS.choice([one for one in letters if one.isprintable() and not one.isspace()])
    return made


KEYS = {
    "none": (),
    "eight of 3072 bits": tuple(rsa(3072) for _ in range(8)),
    "as many as there may be": tuple(rsa(2048, comment("αβγδεζηθικλμνξο", 26)) for _ in range(20)),
    "with long comments": tuple(rsa(2048, comment(string.ascii_letters, LONGEST_SSH_COMMENT)) for _ in range(12)),
}


def launched(
    script: str | None,
    keys: tuple[str, ...],
    *,
    group: bool,
    batch: bool,
    config: AgentConfig | None,
    volumes: tuple[VolumeSpec, ...] = (),
) -> LaunchSpec:
    made = spec(
        startup_script=script,
        ssh_public_keys=keys,
        host_keys=HostKeyReport(url=f"{URL}/v1/host-keys", token="f" * 64),
        agent=config,
        group=replace(GROUP, hosts_url=f"{URL}/v1/group-hosts") if group else None,
        volumes=volumes,
    )
    return slot_tokens.shared(replace(made, slot_secret="0123456789abcdef" * 4)) if batch else made


def is_taken(script: str, keys: tuple[str, ...], *, group: bool, volumes: bool = False) -> bool:
    """Whether the API takes the script beside these keys."""
    try:
        checked_script(script)
        check_boot_size(script, keys, in_group=group, has_volumes=volumes)
    except ValueError:
        return False
    return True


def longest(letters: str, keys: tuple[str, ...], *, group: bool, volumes: bool = False) -> str:
    """The longest script of such letters that the API takes."""
    text = "#!/bin/sh\n" + "".join(random.Random(7).choices(letters, k=LARGEST_STARTUP_SCRIPT))
    lengths = range(10, len(text))
    taken = partial(is_taken, keys=keys, group=group, volumes=volumes)
    return text[: lengths[bisect_right(lengths, False, key=lambda n: not taken(text[:n])) - 1]]


@pytest.mark.parametrize("group", [False, True], ids=["lease", "group"])
@pytest.mark.parametrize("keys", KEYS)
@pytest.mark.parametrize("text", TEXTS)
def test_the_largest_request_that_is_taken_can_be_launched_at_each_provider(text: str, keys: str, group: bool) -> None:
    check_total(KEYS[keys])
    script = longest(TEXTS[text], KEYS[keys], group=group)
    assert is_taken(script, KEYS[keys], group=group)
    for config in AGENTS.values():
        for batch in (False, True):
            made = launched(script, KEYS[keys], group=group, batch=batch, config=config)
            packed = {
                name: pack(made) for name, pack in PACKED.items()
            }  # raises InvalidSpec for a text that is too long
            files = [file["path"] for file in first_boot(packed["aws"]).config["write_files"]]
            if config is not None and config.url is not None:
                assert agent.PROGRAM in files, "its loader has room"


@pytest.mark.parametrize(("group", "most"), [(False, MOST_ALONE), (True, MOST_IN_GROUP)], ids=["lease", "group"])
def test_the_limits_leave_little_of_ec2s_room_unused(group: bool, most: int) -> None:
    """What gpulease adds grows: then a limit is lowered here, and no launch fails."""
    keys = KEYS["as many as there may be"]
    script = longest(TEXTS["printable"], keys, group=group)
    made = launched(script, keys, group=group, batch=True, config=AGENT)
    left = aws.LIMIT - len(aws.unpacked(aws.packed(made)))
    assert most - boot_size(script, keys) < 64, "the script is as long as it may be"
    assert 100 < left < 1000


def mounts(cloud_id: Callable[[], str]) -> tuple[VolumeSpec, ...]:
    """As many volumes as a lease may have, at paths as long as they may be, which do not compress."""
    letters = string.ascii_letters + string.digits + "._-"
    paths = ["/" + "".join(SEEDS.choices(letters, k=LONGEST_PATH - 1)) for _ in range(MOST_OF_LEASE)]
    return tuple(VolumeSpec(cloud_id=cloud_id(), path=path, index=index) for index, path in enumerate(paths))


@pytest.mark.parametrize("group", [False, True], ids=["lease", "group"])
@pytest.mark.parametrize("keys", KEYS)
def test_volumes_fit_beside_the_largest_script_that_is_taken_with_them(keys: str, group: bool) -> None:
    script = longest(PRINTABLE, KEYS[keys], group=group, volumes=True)
    volumes = mounts(lambda: f"vol-0{SEEDS.getrandbits(64):016x}")
    made = launched(script, KEYS[keys], group=group, batch=False, config=AGENT, volumes=volumes)
    for pack in PACKED.values():
        pack(made)  # raises InvalidSpec for a text that is too long
    without = launched(script, KEYS[keys], group=group, batch=False, config=replace(AGENT, url=None))
    size = len(aws.unpacked(aws.packed(replace(without, volumes=volumes)))) - len(aws.unpacked(aws.packed(without)))
    assert VOLUMES - 300 < size < VOLUMES


@pytest.mark.parametrize("keys", KEYS)
def test_keys_alone_always_fit(keys: str) -> None:
    """So that the refusal may name the script as what is too long."""
    assert boot_size(None, KEYS[keys]) <= MOST_IN_GROUP


def test_no_keys_that_are_taken_are_too_long_by_themselves() -> None:
    for letters in TEXTS.values():
        each = [rsa(2048, comment(letters, LONGEST_SSH_COMMENT)) for _ in range(13)]
        assert sum(len(one.encode()) for one in each) > LARGEST_SSH_KEYS - 700
        assert boot_size(None, each) <= MOST_IN_GROUP


def test_the_refusal_names_the_size_the_limit_and_what_to_do() -> None:
    text = "#!/bin/sh\n" + "".join(random.Random(7).choices(PRINTABLE, k=12_000))
    size = boot_size(text, KEYS["as many as there may be"])
    with pytest.raises(ValueError, match=rf"has {size} bytes.*{MOST_ALONE} are the most: let the script fetch"):
        check_boot_size(text, KEYS["as many as there may be"], in_group=False, has_volumes=False)
