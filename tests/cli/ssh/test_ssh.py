"""`gpulease ssh`: the command that ssh is started with, and what may get into it."""

import shlex
import stat
import subprocess
from pathlib import Path

import pytest

from app.cli.errors import CliError
from app.cli.ssh.ssh import _ATTACH
from app.cli.ssh.target import options, state_directory, target
from tests.cli.conftest import Cli
from tests.cli.fake_api import ACTIVE, BOOTING, NO_CAPACITY, PROVISIONING, RELEASED, RELEASING, FakeApi, Json, a_lease

KEYS = ["ssh-ed25519 AAAAC3Nza+/==", "ecdsa-sha2-nistp256 AAAAE2Vj root@vm"]
CONNECTION: Json = {
    "public_ip": "203.0.113.9",
    "private_ip": "10.0.0.9",
    "ssh_user": "ubuntu",
    "ssh_port": 22,
    "ssh_command": "ssh ubuntu@203.0.113.9",
    "ssh_host_keys": KEYS,
}


def _lease(**connection: object) -> Json:
    return a_lease(1, **{**PROVISIONING, **BOOTING, **ACTIVE, "connection": {**CONNECTION, **connection}})


@pytest.fixture
def state(cli: Cli, tmp_path: Path) -> Path:
    cli.environ["XDG_STATE_HOME"] = str(tmp_path / "my state")
    return tmp_path / "my state" / "gpulease" / "ssh"


def _printed(cli: Cli, *more: str) -> list[str]:
    result = cli("ssh", "train-1", "--print", *more)
    assert result.exit_code == 0, result.output
    return shlex.split(result.stdout)


def test_the_vms_own_host_keys_are_the_only_ones_believed(api: FakeApi, cli: Cli, state: Path) -> None:
    api.add(_lease())
    known = state / "lease_00000000000000000000000001-1.known"
    assert _printed(cli) == [
        "ssh",
        "-o",
        "HostKeyAlias=lease_00000000000000000000000001",
        "-o",
        f'UserKnownHostsFile="{known}"',
        "-o",
        "StrictHostKeyChecking=yes",
        "-o",
        "User=ubuntu",
        "-o",
        "Port=22",
        "-o",
        "ConnectTimeout=20",
        "203.0.113.9",
    ]
    lines = [
        "lease_00000000000000000000000001 ssh-ed25519 AAAAC3Nza+/==",
        "lease_00000000000000000000000001 ecdsa-sha2-nistp256 AAAAE2Vj",
    ]
    assert known.read_text().splitlines() == lines
    assert stat.S_IMODE(state.stat().st_mode) == 0o700
    assert [file.name for file in state.iterdir()] == [known.name]


def test_unknown_host_keys_are_kept_for_each_vm_when_first_seen(api: FakeApi, cli: Cli, state: Path) -> None:
    api.add(_lease(ssh_host_keys=None))
    line = _printed(cli)
    assert "StrictHostKeyChecking=accept-new" in line
    assert f'UserKnownHostsFile="{state / "lease_00000000000000000000000001-1.seen"}"' in line
    api.leases["lease_00000000000000000000000001"]["attempts_count"] = 2
    assert f'UserKnownHostsFile="{state / "lease_00000000000000000000000001-2.seen"}"' in _printed(cli)


def test_a_vm_without_public_address_is_reached_by_its_private_one(api: FakeApi, cli: Cli, state: Path) -> None:
    api.add(_lease(public_ip=None, ssh_user=None, ssh_port=2222))
    line = _printed(cli)
    assert "Port=2222" in line
    assert line[-1] == "10.0.0.9"
    assert not [word for word in line if word.startswith("User=")]


def test_a_key_file_further_options_and_a_command_are_handed_on(api: FakeApi, cli: Cli, state: Path) -> None:
    api.add(_lease())
    line = _printed(cli, "-i", "/k/id", "--", "-L", "8080:localhost:8080", "echo", "a b")
    assert line[line.index("-i") + 1] == "/k/id"
    assert line[-5:] == ["203.0.113.9", "-L", "8080:localhost:8080", "echo", "a b"]


@pytest.mark.parametrize(
    ("given", "forwarded"),
    [
        ("8888", "8888:localhost:8888"),
        ("jupyter", "8888:localhost:8888"),
        ("8888:localhost:80", "8888:localhost:80"),
        ("0.0.0.0:8888:db:5432", "0.0.0.0:8888:db:5432"),
        ("/run/socket:localhost:80", "/run/socket:localhost:80"),
    ],
)
def test_a_port_is_short_for_the_same_port_of_the_vm(
    api: FakeApi, cli: Cli, state: Path, given: str, forwarded: str
) -> None:
    api.add(_lease())
    assert _printed(cli, "-L", given, "-L", "6006")[-5:] == [
        "-L",
        forwarded,
        "-L",
        "6006:localhost:6006",
        "203.0.113.9",
    ]
    assert _printed(cli, "-N", "-L", given)[-4:] == ["-L", forwarded, "-N", "203.0.113.9"]


@pytest.mark.parametrize("given", ["0", "65536", "notebook", "-v"])
def test_what_is_no_forwarding_is_refused(api: FakeApi, cli: Cli, state: Path, given: str) -> None:
    api.add(_lease())
    result = cli("ssh", "train-1", "--print", f"-L{given}")
    assert result.exit_code == 2
    assert api.asked == []


def _copied(cli: Cli, *words: str) -> list[str]:
    result = cli("cp", "--print", *words)
    assert result.exit_code == 0, result.output
    line = shlex.split(result.stdout)
    assert line[0] == "scp"
    assert "StrictHostKeyChecking=yes" in line
    assert "HostKeyAlias=lease_00000000000000000000000001" in line
    return line[line.index("ConnectTimeout=20") + 1 :]


def test_files_are_copied_both_ways_under_the_same_host_key_rules(api: FakeApi, cli: Cli, state: Path) -> None:
    api.add(_lease())
    assert _copied(cli, "model.pt", "train-1:models/") == ["--", "model.pt", "203.0.113.9:models/"]
    assert _copied(cli, "-r", "lease_00000000000000000000000001:runs", "-i", "/k/id", ".") == [
        "-o",
        "IdentitiesOnly=yes",
        "-i",
        "/k/id",
        "-r",
        "--",
        "203.0.113.9:runs",
        ".",
    ]
    assert _copied(cli, "train-1:", "--", "-v") == ["--", "203.0.113.9:", "-v"]
    assert _copied(cli, "./a:b", "train-1:") == ["--", "./a:b", "203.0.113.9:"]


def test_the_colons_of_an_address_are_not_those_before_a_path(api: FakeApi, cli: Cli, state: Path) -> None:
    api.add(_lease(public_ip="2001:db8::9"))
    assert _copied(cli, "a", "train-1:b")[-1] == "[2001:db8::9]:b"
    assert _printed(cli)[-1] == "2001:db8::9"


@pytest.mark.parametrize(
    ("paths", "hint"),
    [
        (("a", "b"), "both paths are local"),
        (("train-1:a", "train-2:b"), "both paths are on VMs"),
        ((":a", "b"), "LEASE:PATH"),
    ],
)
def test_a_copy_has_one_side_on_a_vm(api: FakeApi, cli: Cli, state: Path, paths: tuple[str, str], hint: str) -> None:
    result = cli("cp", *paths)
    assert result.exit_code == 2
    assert hint in " ".join(result.stderr.split())


@pytest.mark.parametrize(
    ("change", "hint"),
    [
        ({}, "queued, not active: wait with `gpulease lease watch lease_00000000000000000000000001 --until active`"),
        (PROVISIONING, "provisioning, not active: wait with `gpulease lease watch"),
        (BOOTING, "booting, not active: wait with `gpulease lease watch"),
        (RELEASING, "releasing, not active: there is no VM to log in to"),
        (RELEASED, "released, not active: there is no VM to log in to"),
        (NO_CAPACITY, "failed, not active: there is no VM to log in to"),
        ({"state": "active"}, "has no address yet"),
    ],
)
def test_a_lease_one_cannot_log_in_to_says_why(api: FakeApi, cli: Cli, state: Path, change: Json, hint: str) -> None:
    api.add(a_lease(1, **change))
    result = cli("ssh", "lease_00000000000000000000000001")
    assert result.exit_code == 1
    assert hint in result.stderr


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("public_ip", "-oProxyCommand=id"),
        ("public_ip", "-v"),
        ("public_ip", "203.0.113.9;id"),
        ("public_ip", "203.0.113.9\n"),
        ("public_ip", "me@203.0.113.9"),
        ("public_ip", "%h"),
        ("ssh_user", "-lroot"),
        ("ssh_user", "a b"),
        ("ssh_user", "$(id)"),
        ("ssh_user", ""),
        ("ssh_port", "22 -oProxyCommand=id"),
        ("ssh_port", 0),
        ("ssh_port", 65536),
        ("ssh_host_keys", ["ssh-ed25519 AAAA\n* ssh-ed25519 BBBB"]),
        ("ssh_host_keys", ["@cert-authority * ssh-ed25519 AAAA"]),
        ("ssh_host_keys", ["ssh-ed25519"]),
    ],
)
def test_no_answer_of_the_api_becomes_an_option_or_another_hosts_key(name: str, value: object) -> None:
    with pytest.raises(CliError, match="the API returned"):
        target(_lease(**{name: value}))


@pytest.mark.parametrize("lease_id", ["../../x", "-x", "a/b", "a b", ""])
def test_no_id_leads_out_of_the_folder(lease_id: str) -> None:
    with pytest.raises(CliError, match="the API returned"):
        target({**_lease(), "id": lease_id})


def test_a_folder_with_a_percent_sign_is_no_token_of_ssh(tmp_path: Path) -> None:
    known = options(target(_lease()), tmp_path / "50%h")["UserKnownHostsFile"]
    assert known.endswith('/50%%h/lease_00000000000000000000000001-1.known"')
    assert (tmp_path / "50%h" / "lease_00000000000000000000000001-1.known").exists()


def test_host_keys_are_kept_where_the_desktop_says() -> None:
    assert state_directory({"HOME": "/h"}) == Path("/h/.local/state/gpulease/ssh")
    assert state_directory({"HOME": "/h", "XDG_STATE_HOME": "/s"}) == Path("/s/gpulease/ssh")
    with pytest.raises(CliError, match="set HOME"):
        state_directory({})


def test_it_becomes_ssh_and_ends_with_its_exit_code(api: FakeApi, cli: Cli, state: Path, tmp_path: Path) -> None:
    api.add(_lease())
    programs = tmp_path / "bin"
    programs.mkdir()
    ssh = programs / "ssh"
    ssh.write_text('#!/bin/sh\nprintf "%s\\n" "$@"\nexit 7\n')
    ssh.chmod(0o755)
    line = _printed(cli, "--", "nvidia-smi", "$HOME")
    with cli.fork("ssh", "train-1", "--", "nvidia-smi", "$HOME", environ={"PATH": f"{programs}"}) as process:
        out, _ = process.communicate(timeout=30)
    assert process.returncode == 7
    assert out.splitlines() == line[1:]


def test_without_ssh_it_says_so(api: FakeApi, cli: Cli, state: Path, tmp_path: Path) -> None:
    api.add(_lease())
    with cli.fork("ssh", "train-1", environ={"PATH": str(tmp_path / "nothing")}) as process:
        _, errors = process.communicate(timeout=30)
    assert process.returncode == 1
    assert "ssh is not on PATH" in errors


def test_attach_continues_a_shell_of_the_vm(api: FakeApi, cli: Cli, state: Path) -> None:
    api.add(_lease())
    result = cli("attach", "train-1", "-L", "tensorboard", "--print")
    line = shlex.split(result.stdout)
    assert line[-5:-1] == ["-L", "6006:localhost:6006", "203.0.113.9", "-t"]
    assert "exec tmux new-session -A -s gpulease" in line[-1]


@pytest.mark.parametrize(("options", "follows"), [((), False), (("--follow",), True)])
def test_the_output_of_a_startup_script_is_read_by_a_login(
    api: FakeApi, cli: Cli, state: Path, options: tuple[str, ...], follows: bool
) -> None:
    api.add(_lease())
    *_, host, command = shlex.split(cli("lease", "logs", "train-1", "--print", *options).stdout)
    assert host == "203.0.113.9"
    assert "sudo tail -n +1 " in command
    assert "google-startup-scripts.service" in command
    assert ("-F /var/log/cloud-init-output.log" in command) is follows
    assert subprocess.run(["/bin/sh", "-n", "-c", command], check=False).returncode == 0


def test_the_commands_of_a_vm_are_valid_for_its_shell() -> None:
    assert subprocess.run(["/bin/sh", "-n", "-c", _ATTACH], check=False).returncode == 0
