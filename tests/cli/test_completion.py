"""What the shell offers on TAB, and what it must never offer."""

import socket
from pathlib import Path

import pytest
from typer.testing import CliRunner

from app.cli import completion
from app.cli.main import app
from tests.cli.conftest import Cli
from tests.cli.fake_api import TENANT_KEY, Answer, FakeApi, Json, a_lease


@pytest.fixture(autouse=True)
def patience(monkeypatch: pytest.MonkeyPatch) -> None:
    """How busy the machine is decides nothing."""
    monkeypatch.setattr(completion, "_PATIENCE", 20.0)


def complete(cli: Cli, line: str, **environ: str) -> list[str]:
    """What bash is offered for the last word of the line."""
    runner = CliRunner(env={**cli.environ, **_asked(line), **environ})
    done = runner.invoke(app, prog_name="gpulease")
    assert (done.exit_code, done.stderr) == (0, "")
    return done.stdout.split()


def _asked(line: str) -> dict[str, str]:
    """How bash asks the program."""
    last = len(line.split(" ")) - 1
    return {"_GPULEASE_COMPLETE": "complete_bash", "COMP_WORDS": line, "COMP_CWORD": str(last)}


@pytest.mark.parametrize(
    "line",
    [
        "lease show",
        "lease watch",
        "lease extend",
        "lease update",
        "lease release",
        "lease release other",
        "events list --lease",
        "ssh",
    ],
)
def test_lease_names_are_offered(api: FakeApi, cli: Cli, line: str) -> None:
    api.add(a_lease(1))
    api.add(a_lease(2, name="other"))
    assert complete(cli, f"gpulease {line} tr") == ["train-1"]
    (asked,) = api.asked
    assert asked.query["state"] == ["active" if line == "ssh" else "!terminal"]
    assert asked.query["search"] == ["tr"]


@pytest.mark.parametrize(
    ("path", "items", "line", "offered"),
    [
        (
            "/v1/gpu-models",
            [{"model": "A100"}, {"model": "A10G"}, {"model": "H100"}],
            "lease create --gpu A1",
            ["A100", "A10G"],
        ),
        ("/v1/gpu-models", [{"model": "A100"}, {"model": "H100"}], "lease list --gpu-model H", ["H100"]),
        ("/v1/regions", [{"region": "us-east-1"}, {"region": "eastus"}], "lease plan --region us", ["us-east-1"]),
    ],
)
def test_gpu_models_and_regions_are_offered(
    api: FakeApi, cli: Cli, path: str, items: list[Json], line: str, offered: list[str]
) -> None:
    api.documents["GET", path] = {"items": items, "next_cursor": None}
    assert complete(cli, f"gpulease {line}") == offered


def test_an_id_that_was_begun_is_completed(api: FakeApi, cli: Cli) -> None:
    api.add(a_lease(1))
    assert complete(cli, "gpulease lease show lease_") == ["lease_00000000000000000000000001"]
    assert "search" not in api.asked[0].query


def test_the_connection_options_on_the_line_count(api: FakeApi, cli: Cli, tmp_path: Path) -> None:
    (cli.home / "credentials.json").unlink()
    api.add(a_lease(1))
    config = cli.home / "config.toml"
    config.write_text(f'[profiles.lab]\nurl = "{api.url}"\nkey = "{TENANT_KEY}"\n')
    config.chmod(0o600)
    assert complete(cli, "gpulease --profile lab lease show tr") == ["train-1"]
    assert complete(cli, "gpulease lease show --profile lab tr") == ["train-1"]
    assert complete(cli, "gpulease lease show tr") == []


def test_names_that_a_shell_would_read_as_more_are_not_offered(api: FakeApi, cli: Cli) -> None:
    names = ["$(id)", "a b", "-rf", "a;id", "`id`", "a\nb", "a'b", "~root", "plain"]
    for number, name in enumerate(names):
        api.add(a_lease(number, name=name))
    assert complete(cli, "gpulease lease show ") == ["plain"]


def test_trouble_is_silent(api: FakeApi, cli: Cli) -> None:
    api.next_answers.append(Answer(500, None, raw=b"<html>"))
    assert complete(cli, "gpulease lease show tr") == []
    assert complete(cli, "gpulease lease show tr", GPULEASE_HOME="/nonexistent") == []
    assert complete(cli, "gpulease lease show tr", GPULEASE_URL="not an address") == []
    (cli.home / "config.toml").write_text("[[[")
    assert complete(cli, "gpulease lease show tr") == []
    assert complete(cli, "gpulease profile use l") == []


def test_an_api_that_does_not_answer_is_not_waited_for(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(completion, "_PATIENCE", 0.2)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        url = f"http://127.0.0.1:{silent.getsockname()[1]}"
        assert complete(cli, "gpulease lease show tr", GPULEASE_URL=url, GPULEASE_KEY="gpl_x") == []


def test_profile_names_are_offered_and_no_key_command_runs(api: FakeApi, cli: Cli, tmp_path: Path) -> None:
    (cli.home / "credentials.json").unlink()
    ran = tmp_path / "ran"
    config = cli.home / "config.toml"
    config.write_text(f'default = "lab"\n[profiles.lab]\nurl = "{api.url}"\nkey_command = "touch {ran}"\n')
    config.chmod(0o600)
    for line in ("profile use", "profile remove", "me --profile", "--profile"):
        assert complete(cli, f"gpulease {line} l") == ["lab"]
    assert complete(cli, "gpulease lease show tr") == []
    assert not ran.exists()
    assert not api.asked


def test_a_process_of_its_own_answers_the_shell(api: FakeApi, cli: Cli) -> None:
    """On a busy machine the API may take longer than the shell is made to wait. People press TAB again."""
    api.add(a_lease(1))

    def offered() -> tuple[str, str]:
        with cli.start(environ=_asked("gpulease lease show tr")) as process:
            return process.communicate(timeout=30)

    assert any(offered() == ("train-1\n", "") for _ in range(3))


def test_the_shell_can_be_taught(cli: Cli) -> None:
    with cli.start(
        "--show-completion", "bash", environ={"_TYPER_COMPLETE_TEST_DISABLE_SHELL_DETECTION": "1"}
    ) as process:
        out, _ = process.communicate(timeout=30)
    assert "_GPULEASE_COMPLETE=complete_bash" in out
