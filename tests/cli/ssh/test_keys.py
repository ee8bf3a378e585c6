"""`gpulease ssh-keys`, and the key that a new lease gets."""

import os
import pty
from pathlib import Path

import pytest

from app.cli.ssh.keys import LocalKey, local_keys
from tests.cli.conftest import Cli
from tests.cli.fake_api import FakeApi, Json

KEY = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIOMqqnkVzrm0SdG6UOoqKLsabgH5C9okWi0dh2l9GKJl me@laptop"
CREATE = ("lease", "create", "--gpu", "A100:8", "--ttl", "4h")


@pytest.fixture
def home(cli: Cli, tmp_path: Path) -> Path:
    folder = tmp_path / "home"
    (folder / ".ssh").mkdir(parents=True)
    cli.environ["HOME"] = str(folder)
    return folder


def put(home: Path, name: str, text: str = KEY) -> Path:
    path = home / ".ssh" / name
    path.write_text(f"{text}\n")
    return path


def created(api: FakeApi) -> Json:
    (asked,) = api.calls("POST", "/v1/leases")
    assert asked.body is not None
    return asked.body


def answer(cli: Cli, text: str, *arguments: str) -> tuple[int, str]:
    """Runs a command at a terminal at which somebody types `text`. Exit code and standard error."""
    person, terminal = pty.openpty()
    os.write(person, text.encode())
    with cli.fork(*arguments, stdin=terminal) as process:
        os.close(terminal)
        _, errors = process.communicate(timeout=60)
    os.close(person)
    return process.returncode, errors


# --- the stored keys --------------------------------------------------------------------------------------


def test_a_key_is_stored_under_its_comment_or_a_name(api: FakeApi, cli: Cli, home: Path) -> None:
    path = put(home, "id_ed25519.pub")
    assert cli("ssh-keys", "add", str(path), "--default").exit_code == 0
    assert cli("ssh-keys", "add", str(path), "--name", "desk").exit_code == 0
    bodies = [asked.body for asked in api.calls("POST", "/v1/ssh-keys")]
    assert bodies == [
        {"name": "me-laptop", "public_key": KEY, "default": True},
        {"name": "desk", "public_key": KEY, "default": False},
    ]


def test_a_comment_that_is_taken_gets_a_number_and_a_given_name_does_not(api: FakeApi, cli: Cli, home: Path) -> None:
    path = put(home, "id_ed25519.pub")
    for _ in range(2):
        assert cli("ssh-keys", "add", str(path)).exit_code == 0
    assert [key["name"] for key in api.ssh_keys] == ["laptop", "me-laptop", "me-laptop-2"]
    refused = cli("ssh-keys", "add", str(path), "--name", "laptop")
    assert refused.exit_code == 1
    assert "name_taken" in refused.stderr


@pytest.mark.parametrize("text", ["-----BEGIN OPENSSH PRIVATE KEY-----", f"{KEY}\n{KEY}", ""])
def test_a_private_key_and_several_keys_are_refused(api: FakeApi, cli: Cli, home: Path, text: str) -> None:
    assert cli("ssh-keys", "add", str(put(home, "id", text))).exit_code == 2
    assert api.asked == []


def test_keys_are_listed_made_default_and_deleted_by_name(api: FakeApi, cli: Cli) -> None:
    assert "laptop" in cli("ssh-keys", "list", "--mine").stdout
    assert api.calls("GET", "/v1/ssh-keys")[0].query["mine"] == ["true"]
    assert cli("ssh-keys", "set-default", "laptop", "--off").exit_code == 0
    assert api.ssh_keys[0]["default"] is False
    assert cli("ssh-keys", "set-default", "sshkey_00000000000000000000000000").exit_code == 0
    assert [key["default"] for key in api.ssh_keys[:1]] == [True]
    assert "no SSH key has the name 'other'" in cli("ssh-keys", "delete", "other").stderr
    assert cli("ssh-keys", "delete", "laptop").exit_code == 0
    assert api.ssh_keys == []


def test_the_preferred_key_of_this_machine_comes_first_and_others_than_keys_are_left_out(home: Path) -> None:
    for name in ("id_rsa.pub", "id_ed25519.pub", "other.pub"):
        put(home, name)
    put(home, "id_broken.pub", "")
    put(home, "id_two.pub", f"{KEY}\n{KEY}")
    assert [key.path.name for key in local_keys({"HOME": str(home)})] == ["id_ed25519.pub", "id_rsa.pub"]
    assert local_keys({}) == []


@pytest.mark.parametrize(
    ("comment", "name"),
    [("me@laptop", "me-laptop"), ("", "id_ed25519"), ("é", "id_ed25519"), ("x" * 200, "x" * 63), ("a b.c", "a-b-c")],
)
def test_a_name_comes_from_the_comment(comment: str, name: str) -> None:
    assert LocalKey(Path("/h/.ssh/id_ed25519.pub"), f"ssh-ed25519 AAAA {comment}".strip()).name == name


# --- the key of a new lease -------------------------------------------------------------------------------


def test_a_lease_names_stored_keys_and_carries_those_of_files(api: FakeApi, cli: Cli, home: Path) -> None:
    path = put(home, "id_ed25519.pub")
    assert cli(*CREATE, "--ssh-key", "laptop", "--ssh-key", str(path)).exit_code == 0
    assert created(api)["ssh_keys"] == ["laptop"]
    assert created(api)["ssh_public_keys"] == [KEY]
    assert not api.calls("GET", "/v1/ssh-keys")


def test_a_missing_file_is_not_taken_for_a_name(api: FakeApi, cli: Cli, home: Path) -> None:
    for text in (f"{home}/.ssh/id_none", "id_none.pub"):
        result = cli(*CREATE, "--ssh-key", text)
        assert result.exit_code == 2
    assert api.asked == []


def test_no_key_is_a_choice(api: FakeApi, cli: Cli) -> None:
    result = cli(*CREATE, "--no-ssh-key")
    assert (result.exit_code, result.stderr) == (0, "")
    assert (created(api)["ssh_keys"], created(api)["ssh_public_keys"]) == ([], [])
    assert cli(*CREATE, "--no-ssh-key", "--ssh-key", "laptop").exit_code == 2


def test_with_a_default_key_nothing_is_said(api: FakeApi, cli: Cli) -> None:
    result = cli(*CREATE)
    assert (result.exit_code, result.stderr) == (0, "")
    assert created(api).keys().isdisjoint({"ssh_keys", "ssh_public_keys"})


def test_without_a_terminal_the_lack_of_a_key_is_a_warning(api: FakeApi, cli: Cli, home: Path) -> None:
    api.ssh_keys.clear()
    put(home, "id_ed25519.pub")
    result = cli(*CREATE, stdin="y\n")
    assert result.exit_code == 0
    assert "warning: the lease has no SSH key, so nobody can log in to its VM: use --ssh-key FILE" in result.stderr
    assert api.ssh_keys == []


def test_stored_keys_without_a_default_are_named(api: FakeApi, cli: Cli) -> None:
    api.ssh_keys[0]["default"] = False
    result = cli(*CREATE)
    assert "none of your stored keys (laptop) is a default key" in result.stderr


@pytest.mark.parametrize(("typed", "stored"), [("\n", True), ("y\n", True), ("n\n", False)])
def test_at_a_terminal_this_machines_key_is_offered_once(
    api: FakeApi, cli: Cli, home: Path, typed: str, stored: bool
) -> None:
    api.ssh_keys.clear()
    path = put(home, "id_ed25519.pub")
    code, errors = answer(cli, typed, *CREATE)
    assert code == 0, errors
    assert f"Store {path} as your default key for logins?" in errors
    assert [(key["name"], key["public_key"], key["default"]) for key in api.ssh_keys] == [
        ("me-laptop", KEY, True)
    ] * stored
    assert ("warning: the lease has no SSH key" in errors) is not stored
    assert len(api.calls("POST", "/v1/leases")) == 1


def test_of_several_keys_one_is_chosen(api: FakeApi, cli: Cli, home: Path) -> None:
    api.ssh_keys.clear()
    put(home, "id_ed25519.pub", KEY.replace("me@laptop", "first"))
    put(home, "id_rsa.pub", KEY.replace("me@laptop", "second"))
    code, errors = answer(cli, "2\n", *CREATE)
    assert code == 0, errors
    assert [key["name"] for key in api.ssh_keys] == ["second"]


def test_a_program_that_reads_json_is_asked_nothing(api: FakeApi, cli: Cli, home: Path) -> None:
    api.ssh_keys.clear()
    put(home, "id_ed25519.pub")
    code, errors = answer(cli, "", *CREATE, "--json")
    assert code == 0
    assert "warning: the lease has no SSH key" in errors
    assert api.ssh_keys == []


def test_on_a_machine_without_a_key_one_is_created_and_stored(
    api: FakeApi, cli: Cli, home: Path, tmp_path: Path
) -> None:
    api.ssh_keys.clear()
    keygen = tmp_path / "bin" / "ssh-keygen"
    keygen.parent.mkdir()
    keygen.write_text(f'#!/bin/sh\nfor last; do :; done\necho "{KEY}" > "$last.pub"\n')
    keygen.chmod(0o755)
    cli.environ["PATH"] = f"{keygen.parent}:{os.environ['PATH']}"
    code, errors = answer(cli, "\n", *CREATE)
    assert code == 0, errors
    assert "Create ~/.ssh/id_ed25519 without a passphrase" in " ".join(errors.split())
    assert [(key["public_key"], key["default"]) for key in api.ssh_keys] == [(KEY, True)]
    assert (home / ".ssh" / "id_ed25519.pub").exists()
