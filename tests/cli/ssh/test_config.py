"""`gpulease ssh-config`: the aliases, and the line that includes them."""

import fnmatch
import re
import shutil
import stat
import string
import subprocess
from pathlib import Path

import pytest

from app.cli.errors import CliError
from app.cli.ssh.config import config_file, install, is_included, render
from app.cli.ssh.ssh import Login
from tests.cli.conftest import Cli
from tests.cli.fake_api import ACTIVE, BOOTING, PROVISIONING, TENANT_ID, FakeApi, Json, a_lease

INCLUDE = 'Include "/h/.ssh/gpulease/*.config"'


@pytest.fixture
def home(cli: Cli, api: FakeApi, tmp_path: Path) -> Path:
    cli.environ["HOME"] = str(tmp_path / "home")
    cli.environ["XDG_STATE_HOME"] = ""
    api.documents["GET", "/v1/me"] = {"key_id": "key_00000000000000000000000001", "tenant_id": TENANT_ID}
    return tmp_path / "home"


def active(number: int, **changes: object) -> Json:
    connection = {
        "public_ip": f"203.0.113.{number}",
        "private_ip": None,
        "ssh_user": "ubuntu",
        "ssh_port": 22,
        "ssh_host_keys": ["ssh-ed25519 AAAAC3Nza"],
    }
    return a_lease(number, **{**PROVISIONING, **BOOTING, **ACTIVE, "connection": connection, **changes})


def tenant_file(home: Path) -> Path:
    return home / ".ssh" / "gpulease" / f"{TENANT_ID}.config"


def test_each_active_lease_has_an_alias_with_the_rules_of_its_host_keys(api: FakeApi, cli: Cli, home: Path) -> None:
    api.add(active(1))
    result = cli("ssh-config", "-i", "/k/my id")
    assert result.exit_code == 0, result.output
    assert result.stdout == "train-1.gpulease\n"
    state = home / ".local" / "state" / "gpulease" / "ssh"
    assert tenant_file(home).read_text().splitlines() == [
        "# Written by `gpulease ssh-config`, which replaces the whole file.",
        "",
        "Host train-1.gpulease",
        "  HostName 203.0.113.1",
        "  HostKeyAlias lease_00000000000000000000000001",
        f'  UserKnownHostsFile "{state}/lease_00000000000000000000000001-1.known"',
        "  StrictHostKeyChecking yes",
        "  User ubuntu",
        "  Port 22",
        "  ConnectTimeout 20",
        '  IdentityFile "/k/my id"',
        "  IdentitiesOnly yes",
    ]
    assert (
        state / "lease_00000000000000000000000001-1.known"
    ).read_text() == "lease_00000000000000000000000001 ssh-ed25519 AAAAC3Nza\n"
    assert stat.S_IMODE(tenant_file(home).stat().st_mode) == 0o600
    (asked,) = api.calls("GET", "/v1/leases")
    assert asked.query["state"] == ["active"]


def test_the_include_line_comes_first_and_once(api: FakeApi, cli: Cli, home: Path) -> None:
    config = home / ".ssh" / "config"
    config.parent.mkdir(parents=True)
    config.write_text("Host other\n  User me\n")
    config.chmod(0o644)
    for _ in range(2):
        assert cli("ssh-config").exit_code == 0
    assert config.read_text() == f'Include "{home}/.ssh/gpulease/*.config"\n\nHost other\n  User me\n'


def test_a_linked_configuration_stays_a_link(api: FakeApi, cli: Cli, home: Path) -> None:
    (home / ".ssh").mkdir(parents=True)
    real = home / "dotfiles"
    real.write_text("")
    (home / ".ssh" / "config").symlink_to(real)
    assert cli("ssh-config").exit_code == 0
    assert (home / ".ssh" / "config").is_symlink()
    assert real.read_text() == f'Include "{home}/.ssh/gpulease/*.config"\n'


def test_aliases_of_ended_leases_go(api: FakeApi, cli: Cli, home: Path) -> None:
    api.add(active(1))
    api.add(active(2))
    assert cli("ssh-config").stdout.split() == ["train-1.gpulease", "train-2.gpulease"]
    del api.leases["lease_00000000000000000000000001"]
    assert cli("ssh-config").stdout.split() == ["train-2.gpulease"]
    assert "train-1" not in tenant_file(home).read_text()


def test_print_changes_nothing_below_the_folder_of_ssh(api: FakeApi, cli: Cli, home: Path) -> None:
    api.add(active(1))
    result = cli("ssh-config", "--print")
    assert "Host train-1.gpulease\n" in result.stdout
    assert not (home / ".ssh").exists()


def test_names_that_read_alike_and_odd_ones_become_safe_aliases(api: FakeApi, cli: Cli, home: Path) -> None:
    for number, name in enumerate(("a b", "a-b", "*", "x\nHost *\n  ProxyCommand id", ".."), 1):
        api.add(active(number, name=name))
    aliases = cli("ssh-config").stdout.split()
    assert aliases == [
        "a-b.gpulease",
        "lease_00000000000000000000000002.gpulease",
        "lease_00000000000000000000000003.gpulease",
        "x-Host-ProxyCommand-id.gpulease",
        "lease_00000000000000000000000005.gpulease",
    ]
    hosts = [line for line in tenant_file(home).read_text().splitlines() if line.startswith("Host")]
    assert hosts == [f"Host {alias}" for alias in aliases]


def test_a_lease_without_address_is_left_out_with_a_note(api: FakeApi, cli: Cli, home: Path) -> None:
    api.add(active(1, connection=None))
    api.add(active(2))
    result = cli("ssh-config")
    assert result.stdout == "train-2.gpulease\n"
    assert "left out: lease_00000000000000000000000001 is active but has no address yet" in result.stderr


def test_a_key_without_tenant_and_a_tenant_that_is_no_file_name_are_refused(api: FakeApi, cli: Cli, home: Path) -> None:
    for tenant_id in (None, "../../x"):
        api.documents["GET", "/v1/me"] = {"tenant_id": tenant_id}
        assert cli("ssh-config").exit_code == 1
    assert not (home / ".ssh").exists()


@pytest.mark.parametrize(
    ("config", "included"),
    [
        ("", False),
        (f"# {INCLUDE}\n", False),
        (f"{INCLUDE}\n", True),
        (f"  include={INCLUDE.split()[1]} other\n", True),
        (f"User me\n{INCLUDE}\nHost x\n", True),
        (f"Host x\n{INCLUDE}\n", False),
        (f"match all\n{INCLUDE}\n", False),
        ("HostName x\nInclude other\n", False),
    ],
)
def test_an_include_counts_only_before_the_first_block(config: str, included: bool) -> None:
    assert is_included(config, INCLUDE) is included


ODD_HOMES = [
    *(f"a{odd}b" for odd in string.punctuation + " é" if odd != "/"),
    "a%hb",
    "a[x]b",
    "[!a]",
    "~",
    "a b'c",
    "#x",
]


def written(home: Path) -> Path:
    """The configuration of a user with that home folder, after `gpulease ssh-config` with one lease."""
    home.mkdir()
    login = Login.of(active(1), home / "my id", {})
    main = install(config_file({"HOME": str(home)}, TENANT_ID), render({"train-1.gpulease": login}, home / "keys"))
    assert main is not None
    return main


def unquoted(argument: str) -> str:
    """What OpenSSH 8.7 and later match: the text in quotes without its backslashes, with `%%` for a percent sign."""
    assert (argument[0], argument[-1]) == ('"', '"')
    text = re.sub(r'\\(["\\])', r"\1", argument[1:-1])
    assert "${" not in text
    assert not re.search(r"%(?!%)", text.replace("%%", ""))
    return text.replace("%%", "%").replace("\\\\", "[\\]")


def test_the_include_line_names_the_files_of_any_home_folder_and_no_others(tmp_path: Path) -> None:
    lines = {name: written(tmp_path / name).read_text().splitlines()[0] for name in ODD_HOMES}
    files = {f"{tmp_path / name}/.ssh/gpulease/{TENANT_ID}.config": name for name in ODD_HOMES}
    for name, line in lines.items():
        command, _, argument = line.partition(" ")
        assert command == "Include"
        found = [files[path] for path in files if fnmatch.fnmatchcase(path, unquoted(argument))]
        assert found == [name], line


def test_openssh_reads_what_was_written_in_any_home_folder(tmp_path: Path) -> None:
    """The program itself, where the machine has it."""
    program = shutil.which("ssh")
    for name in ODD_HOMES if program else ():
        main = written(tmp_path / name)
        argv = [str(program), "-G", "-F", str(main), "train-1.gpulease"]
        done = subprocess.run(argv, capture_output=True, text=True, check=False, env={"HOME": str(tmp_path)})
        assert done.returncode == 0, (name, done.stderr)
        shown = done.stdout.replace("%%", "%")  # some options are printed as they were written
        read = {line.split(" ", 1)[0]: line.partition(" ")[2] for line in shown.splitlines()}
        assert read["hostname"] == "203.0.113.1", name
        assert (
            read["userknownhostsfile"].strip('"')
            == f"{main.parent.parent}/keys/lease_00000000000000000000000001-1.known"
        ), name
        assert read["identityfile"].strip('"') == f"{main.parent.parent}/my id", name


@pytest.mark.parametrize("name", ["a\nb", "a\x7fb", "a${HOME}b"])
def test_a_home_folder_that_no_line_can_hold_changes_nothing(tmp_path: Path, name: str) -> None:
    with pytest.raises(CliError, match=r"cannot|no line"):
        written(tmp_path / name)
    assert not (tmp_path / name / ".ssh" / "config").exists()
