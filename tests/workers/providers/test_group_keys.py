"""The key of a group, as the tools of OpenSSH read it."""

import subprocess
from pathlib import Path

from workers.providers.common.group_keys import group_key, public_line


def test_openssh_reads_the_key_and_finds_the_same_public_one(tmp_path: Path) -> None:
    private = group_key(b"k" * 32, "installation", "group_a")
    file = tmp_path / "key"
    file.touch(mode=0o600)
    file.write_text(private)
    shown = subprocess.run(["ssh-keygen", "-y", "-f", file], check=True, capture_output=True, text=True)  # noqa: S607
    assert shown.stdout.split()[:2] == public_line(private).split()


def test_a_group_has_one_key_and_another_group_another() -> None:
    assert group_key(b"k" * 32, "installation", "group_a") == group_key(b"k" * 32, "installation", "group_a")
    keys = {
        group_key(key, of, group) for key in (b"k" * 32, b"l" * 32) for of in "ab" for group in ("group_a", "group_b")
    }
    assert len(keys) == 8
