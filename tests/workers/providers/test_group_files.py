"""Files of the VM that the program of a group edits: bytes that are not its own stay as they are."""

import os
import pwd
from pathlib import Path
from typing import Any

import pytest

from workers.providers.common import gpulease_group as program

HOSTS: list[dict[str, Any]] = [
    {"rank": rank, "private_ip": address, "gpus": 8} for rank, address in enumerate(("10.0.0.1", "10.0.0.2"))
]
OURS = b"# gpulease group: begin\n10.0.0.1 node-0\n10.0.0.2 node-1\n# gpulease group: end\n"
CONTENTS = {
    "empty": b"",
    "plain": b"127.0.0.1 localhost\n",
    "Latin-1": b"# serveur priv\xe9\n127.0.0.1 localhost\n",
    "NUL": b"127.0.0.1 local\x00host\n",
    "CRLF": b"127.0.0.1 localhost\r\n::1 localhost\r\n",
    "separators": b"# a\x0bb\x0cc\x1cd \xe2\x80\xa8 e\x85\n",
    "no final newline": b"127.0.0.1 localhost",
    "big": b"127.0.0.1 localhost\n" * 100_000,
}


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(program, "ROOT", str(tmp_path))
    (tmp_path / "etc").mkdir()
    return tmp_path


def ended(text: bytes) -> bytes:
    return text if not text or text.endswith(b"\n") else text + b"\n"


@pytest.mark.parametrize("kind", CONTENTS)
def test_names_of_a_group_leave_all_other_bytes_alone(root: Path, kind: str) -> None:
    file, text = root / "etc/hosts", CONTENTS[kind]
    file.write_bytes(text)
    for _ in range(2):
        program.name_hosts(HOSTS)
        assert file.read_bytes() == ended(text) + OURS
    program.name_hosts(HOSTS[:1])
    assert file.read_bytes() == ended(text) + OURS.replace(b"10.0.0.2 node-1\n", b"")


def test_what_a_tenant_writes_after_the_group_and_an_editor_of_windows_stay(root: Path) -> None:
    file = root / "etc/hosts"
    file.write_bytes(b"127.0.0.1 localhost\r\n" + OURS.replace(b"\n", b"\r\n") + b"10.9.9.9 mine\xe9\r\n")
    program.name_hosts(HOSTS)
    assert file.read_bytes() == b"127.0.0.1 localhost\r\n10.9.9.9 mine\xe9\r\n" + OURS


def test_a_link_is_replaced_and_what_it_leads_to_stays(root: Path) -> None:
    (root / "elsewhere").write_bytes(CONTENTS["Latin-1"])
    (root / "etc/hosts").symlink_to(root / "elsewhere")
    program.name_hosts(HOSTS)
    assert (root / "etc/hosts").read_bytes() == CONTENTS["Latin-1"] + OURS
    assert (root / "elsewhere").read_bytes() == CONTENTS["Latin-1"]


@pytest.mark.parametrize("blocked", ["hosts", "hosts.gpulease"])
def test_a_file_that_cannot_be_edited_does_not_keep_a_group_from_forming(
    root: Path, blocked: str, capsys: pytest.CaptureFixture[str]
) -> None:
    (root / "etc" / blocked).mkdir()
    me = pwd.getpwuid(os.getuid())
    keys = root / me.pw_dir.lstrip("/") / ".ssh/authorized_keys"
    keys.parent.mkdir(parents=True)
    keys.write_bytes(b"ssh-ed25519 AAAA of-priv\xe9\r\n")
    ssh = {"user": me.pw_name, "private": "secret", "public": "ssh-ed25519 BBBB", "port": 22}
    group = {"group_id": "g", "rank": 0, "hosts": HOSTS[:1], "master_addr": "10.0.0.1", "master_port": 29500}
    program.write({"ssh": ssh, "mesh_port": 1, "mesh_seconds": 0}, group, [])
    assert "GPULEASE_MESH=ok" in (root / "etc/gpulease/group.env").read_text()
    assert (root / "etc/gpulease/hosts").read_text() == "10.0.0.1 slots=8\n"
    mine, ours, last = keys.read_bytes().split(b"\n")
    assert (mine, last) == (b"ssh-ed25519 AAAA of-priv\xe9\r", b"")
    assert ours.endswith(b"ssh-ed25519 BBBB gpulease-group")
    assert "gpulease-group: " in capsys.readouterr().err
