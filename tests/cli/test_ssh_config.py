"""`gpulease ssh-config`: the aliases, and the line that includes them."""

import stat
from pathlib import Path

import pytest

from app.cli.ssh_config import is_included
from tests.cli.conftest import Cli
from tests.cli.fake_api import ACTIVE, BOOTING, PROVISIONING, TENANT_ID, FakeApi, Json, a_lease

INCLUDE = "Include /h/.ssh/gpulease/*.config"


@pytest.fixture
def home(cli: Cli, api: FakeApi, tmp_path: Path) -> Path:
    cli.environ["HOME"] = str(tmp_path / "home")
    cli.environ["XDG_STATE_HOME"] = ""
    api.documents["GET", "/v1/me"] = {"key_id": "key_01", "tenant_id": TENANT_ID}
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
        "  HostKeyAlias lease_01",
        f'  UserKnownHostsFile "{state}/lease_01-1.known"',
        "  StrictHostKeyChecking yes",
        "  User ubuntu",
        "  Port 22",
        "  ConnectTimeout 20",
        '  IdentityFile "/k/my id"',
    ]
    assert (state / "lease_01-1.known").read_text() == "lease_01 ssh-ed25519 AAAAC3Nza\n"
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
    assert config.read_text() == f"Include {home}/.ssh/gpulease/*.config\n\nHost other\n  User me\n"


def test_a_linked_configuration_stays_a_link(api: FakeApi, cli: Cli, home: Path) -> None:
    (home / ".ssh").mkdir(parents=True)
    real = home / "dotfiles"
    real.write_text("")
    (home / ".ssh" / "config").symlink_to(real)
    assert cli("ssh-config").exit_code == 0
    assert (home / ".ssh" / "config").is_symlink()
    assert real.read_text() == f"Include {home}/.ssh/gpulease/*.config\n"


def test_aliases_of_ended_leases_go(api: FakeApi, cli: Cli, home: Path) -> None:
    api.add(active(1))
    api.add(active(2))
    assert cli("ssh-config").stdout.split() == ["train-1.gpulease", "train-2.gpulease"]
    del api.leases["lease_01"]
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
        "lease_02.gpulease",
        "lease_03.gpulease",
        "x-Host-ProxyCommand-id.gpulease",
        "lease_05.gpulease",
    ]
    hosts = [line for line in tenant_file(home).read_text().splitlines() if line.startswith("Host")]
    assert hosts == [f"Host {alias}" for alias in aliases]


def test_a_lease_without_address_is_left_out_with_a_note(api: FakeApi, cli: Cli, home: Path) -> None:
    api.add(active(1, connection=None))
    api.add(active(2))
    result = cli("ssh-config")
    assert result.stdout == "train-2.gpulease\n"
    assert "left out: lease_01 is active but has no address yet" in result.stderr


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
