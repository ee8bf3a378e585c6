"""Profiles: which API and key a command uses, and the file they stand in."""

import json
import os
import pty
import stat
import sys
from pathlib import Path

import pytest

from app.cli.endpoint import Choice, Endpoint, find_endpoint
from app.cli.errors import NotConfiguredError
from app.cli.key_command import profile_key
from app.cli.profiles.profiles import Profile, config_path, load
from tests.cli.conftest import Cli
from tests.cli.fake_api import TENANT_KEY, FakeApi

PROD = '[profiles.prod]\nurl = "https://prod.example"\nkey = "gpl_prod"\n'
LAB = '[profiles.lab]\nurl = "https://lab.example"\nkey = "gpl_lab"\n'
BOTH = f'default = "lab"\n\n{PROD}\n{LAB}'


def _write(path: Path, text: str, mode: int = 0o600) -> Path:
    path.write_text(text)
    path.chmod(mode)
    return path


def _find(tmp_path: Path, text: str, *, environ: dict[str, str] | None = None, **given: str) -> Endpoint:
    file = _write(tmp_path / "config.toml", text)
    return find_endpoint(
        Choice(**given),
        operator=False,
        environ={"GPULEASE_CLI_CONFIG": str(file), **(environ or {})},
        directory=tmp_path,
    )


def test_the_file_is_where_the_desktop_says(tmp_path: Path) -> None:
    assert config_path({"HOME": "/h"}) == Path("/h/.config/gpulease/config.toml")
    assert config_path({"HOME": "/h", "XDG_CONFIG_HOME": "/x"}) == Path("/x/gpulease/config.toml")
    assert config_path({"HOME": "/h", "XDG_CONFIG_HOME": "relative"}) == Path("/h/.config/gpulease/config.toml")
    assert config_path({"HOME": "/h", "GPULEASE_CLI_CONFIG": "/c.toml"}) == Path("/c.toml")
    assert config_path({}) is None


def test_the_default_profile_comes_before_the_local_stack(tmp_path: Path) -> None:
    (tmp_path / ".gpulease").mkdir()
    saved = {"api_url": "http://127.0.0.1:8000", "tenant_key": "gpl_local"}
    (tmp_path / ".gpulease" / "credentials.json").write_text(json.dumps(saved))
    assert _find(tmp_path, BOTH) == Endpoint("https://lab.example", "gpl_lab")
    assert _find(tmp_path, PROD) == Endpoint("http://127.0.0.1:8000", "gpl_local")
    assert _find(tmp_path, BOTH, profile="") == Endpoint("http://127.0.0.1:8000", "gpl_local")


def test_options_come_before_the_environment_and_that_before_the_default_profile(tmp_path: Path) -> None:
    given = {"GPULEASE_URL": "http://env", "GPULEASE_KEY": "gpl_env"}
    assert _find(tmp_path, BOTH, environ={"GPULEASE_PROFILE": "prod"}).key == "gpl_prod"
    assert _find(tmp_path, BOTH, environ={**given, "GPULEASE_PROFILE": "prod"}) == Endpoint("http://env", "gpl_env")
    assert _find(tmp_path, BOTH, environ=given, profile="prod") == Endpoint("https://prod.example", "gpl_prod")
    assert _find(tmp_path, BOTH, profile="prod", url="http://opt", key="gpl_opt") == Endpoint("http://opt", "gpl_opt")
    assert _find(tmp_path, BOTH, profile="prod", key="gpl_opt") == Endpoint("https://prod.example", "gpl_opt")


def test_a_profiles_key_is_never_shown_to_another_host(tmp_path: Path) -> None:
    with pytest.raises(NotConfiguredError, match="http://elsewhere needs a key"):
        _find(tmp_path, BOTH, url="http://elsewhere")
    with pytest.raises(NotConfiguredError, match="http://elsewhere needs a key"):
        _find(tmp_path, BOTH, url="http://elsewhere", profile="prod")
    with pytest.raises(NotConfiguredError, match="http://elsewhere needs a key"):
        _find(tmp_path, BOTH, environ={"GPULEASE_URL": "http://elsewhere"})
    assert _find(tmp_path, BOTH, url="https://lab.example/").key == "gpl_lab"


def test_no_key_command_runs_for_another_host_or_beside_a_given_key(tmp_path: Path) -> None:
    ran = tmp_path / "ran"
    text = f'default = "x"\n[profiles.x]\nurl = "http://x"\nkey_command = "touch {ran}"\n'
    assert _find(tmp_path, text, key="gpl_given") == Endpoint("http://x", "gpl_given")
    with pytest.raises(NotConfiguredError):
        _find(tmp_path, text, url="http://elsewhere")
    assert not ran.exists()


def test_an_unknown_profile_is_refused_with_those_there_are(tmp_path: Path) -> None:
    with pytest.raises(NotConfiguredError, match=r"'test'.*prod, lab"):
        _find(tmp_path, BOTH, profile="test")


def test_a_broken_file_hinders_nobody_who_needs_none(tmp_path: Path) -> None:
    assert _find(tmp_path, "[[[", url="http://u", key="gpl_k") == Endpoint("http://u", "gpl_k")
    with pytest.raises(NotConfiguredError, match=r"cannot read .*config\.toml"):
        _find(tmp_path, "[[[")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("profiles = 1", "must be tables"),
        ("[profiles]\nx = 1", "must be a table"),
        ('[profiles.x]\nkey = "k"', "no url"),
        ("[profiles.x]\nurl = 1", "url must be text"),
        ('[profiles.x]\nurl = "u"\nkeycommand = "c"', "unknown field 'keycommand'"),
        ('[profiles.x]\nurl = "u"\nkey = "k"\nkey_command = "c"', "both key and key_command"),
        ("default = 1", "default must be text"),
    ],
)
def test_what_makes_no_profile_is_named(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(NotConfiguredError, match=message):
        load(_write(tmp_path / "config.toml", text))


def test_keys_that_others_can_read_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "config.toml"
    with pytest.raises(NotConfiguredError, match="chmod 600"):
        load(_write(path, PROD, 0o640))
    command = '[profiles.x]\nurl = "u"\nkey_command = "pass x"\n'
    assert load(_write(path, command, 0o644)).get("x").key_command == "pass x"
    with pytest.raises(NotConfiguredError, match="chmod 600"):
        load(_write(path, command, 0o664))


def _command(script: str, *, timeout: float = 30) -> str | None:
    profile = Profile("p", "http://p", key_command=f"{sys.executable} -c '{script}'")
    return profile_key(profile, timeout=timeout)


def test_a_key_command_gives_its_first_line_and_sees_no_shell() -> None:
    assert _command('import sys; print("gpl_x"); print("comment"); assert sys.argv == ["-c"]') == "gpl_x"
    echo = Profile("p", "http://p", key_command="echo $HOME;gpl `id`")
    assert profile_key(echo) == "$HOME;gpl `id`"


@pytest.mark.parametrize(
    ("script", "message"),
    [("raise SystemExit(3)", "exited with code 3"), ("pass", "printed nothing")],
)
def test_a_key_command_that_fails_says_what_to_do(script: str, message: str) -> None:
    with pytest.raises(NotConfiguredError, match=rf"'p'.*{message}.*run it by hand"):
        _command(script)


def test_a_key_command_that_hangs_or_is_missing_is_given_up() -> None:
    with pytest.raises(NotConfiguredError, match=r"no key within 0\.2 s"):
        _command("import threading; threading.Event().wait()", timeout=0.2)
    for missing in ("/nonexistent/pass x", "'", " "):
        with pytest.raises(NotConfiguredError, match="failed to start"):
            profile_key(Profile("p", "http://p", key_command=missing))


def test_a_profile_is_added_used_and_removed(api: FakeApi, cli: Cli) -> None:
    (cli.home / "credentials.json").unlink()
    api.documents["GET", "/v1/me"] = {"role": "member"}
    added = cli("profile", "add", "lab", "--url", f"{api.url}/", stdin=f"{TENANT_KEY}\n")
    assert added.exit_code == 0, added.output
    file = cli.home / "config.toml"
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert cli("me").exit_code == 2
    assert cli("me", "--profile", "lab").exit_code == 0
    assert cli("profile", "use", "lab").exit_code == 0
    assert cli("me").exit_code == 0
    listed = json.loads(cli("profile", "list", "--json").stdout)
    assert listed["items"] == [{"name": "lab", "url": api.url, "key_from": "file", "default": True}]
    assert cli("profile", "remove", "lab").exit_code == 0
    assert file.read_text() == ""
    assert cli("me").exit_code == 2
    assert [left.name for left in cli.home.iterdir()] == ["config.toml"]


def test_keys_are_never_printed(api: FakeApi, cli: Cli) -> None:
    added = cli("profile", "add", "lab", "--url", api.url, stdin=f"{TENANT_KEY}\n")
    shown = [cli("profile", "list", *form).output for form in ([], ["--json"], ["--output", "csv"])]
    again = cli("profile", "add", "lab", "--url", api.url, stdin=f"{TENANT_KEY}\n")
    assert again.exit_code == 1
    assert "already" in again.stderr
    for text in (added.output, again.output, *shown):
        assert TENANT_KEY not in text
    assert TENANT_KEY not in repr(load(cli.home / "config.toml"))


def test_a_key_command_is_kept_instead_of_a_key(api: FakeApi, cli: Cli) -> None:
    (cli.home / "credentials.json").unlink()
    api.documents["GET", "/v1/me"] = {"role": "member"}
    command = f"printf '%s' {TENANT_KEY}"
    assert cli("profile", "add", "lab", "--url", api.url, "--key-command", command).exit_code == 0
    assert cli("me", "--profile", "lab").exit_code == 0
    assert api.asked[-1].key == TENANT_KEY
    assert "command: printf" in cli("profile", "list").stdout


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["a b", "--url", "http://x"], "letters, digits"),
        (["../x", "--url", "http://x"], "letters, digits"),
        (["x"], "--url"),
        (["x", "--url", "x.example"], "not an API address"),
        (["x", "--url", "http://x"], "no key on standard input"),
    ],
)
def test_what_makes_no_profile_is_not_added(cli: Cli, arguments: list[str], message: str) -> None:
    result = cli("profile", "add", *arguments, stdin="")
    assert result.exit_code == 2
    assert message in result.stderr
    assert not (cli.home / "config.toml").exists()


def test_a_person_types_the_key_unseen(api: FakeApi, cli: Cli) -> None:
    here, there = pty.openpty()
    with cli.fork("profile", "add", "lab", "--url", api.url, stdin=there) as process:
        os.close(there)
        assert process.stderr is not None
        assert process.stderr.read(9) == "API key: "  # the last space comes once nothing is echoed any more
        os.write(here, f"{TENANT_KEY}\n".encode())
        rest = process.communicate(timeout=30)
    os.close(here)
    assert process.returncode == 0, rest
    assert TENANT_KEY not in "".join(rest)
    assert load(cli.home / "config.toml").get("lab").key == TENANT_KEY


def test_what_a_person_wrote_stays(cli: Cli) -> None:
    file = _write(cli.home / "config.toml", f"# mine\ndefault = 'prod'\ncolour = 'red'\n\n{PROD}# after\n\n{LAB}")
    assert cli("profile", "use", "lab").exit_code == 0
    assert cli("profile", "remove", "prod").exit_code == 0
    assert cli("profile", "add", "x", "--url", "http://x", "--key-command", 'say "a\\b"\x7f é').exit_code == 0
    text = file.read_text()
    assert text.startswith("default = \"lab\"\n# mine\ncolour = 'red'\n")
    assert LAB in text
    assert "prod" not in text
    assert load(file).get("x").key_command == 'say "a\\b"\x7f é'


def test_a_file_written_in_another_way_is_left_alone(cli: Cli) -> None:
    text = 'profiles = {prod = {url = "https://prod.example"}}\n'
    file = _write(cli.home / "config.toml", text)
    result = cli("profile", "remove", "prod")
    assert result.exit_code == 1
    assert "by hand" in result.stderr
    assert file.read_text() == text


def test_a_linked_file_stays_a_link(cli: Cli, tmp_path: Path) -> None:
    real = _write(tmp_path / "real.toml", LAB)
    (cli.home / "config.toml").symlink_to(real)
    assert cli("profile", "use", "lab").exit_code == 0
    assert load(real).default == "lab"
    assert (cli.home / "config.toml").is_symlink()
