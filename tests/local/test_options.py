"""The command line and the environment of the stack."""

from pathlib import Path

import pytest

from app.local.options import parse
from app.settings import StartupError


def test_the_defaults_are_the_documented_ones() -> None:
    options = parse([], {})
    assert (options.profile, options.fresh) == ("realistic", False)
    assert (options.api, options.workers, options.inventories, options.gpu_agents) == (1, 1, 2, 16)
    assert (options.api_url, options.cloudsim_url) == ("http://127.0.0.1:8000", "http://127.0.0.1:8010")


def test_everything_can_be_set() -> None:
    environment = {"GPULEASE_PORT": "9000", "GPULEASE_CLOUDSIM_PORT": "9010", "GPULEASE_DATABASE_URL": "postgresql://x"}
    numbers = ("--api", "3", "--workers", "2", "--inventories", "1", "--gpu-agents", "0")
    options = parse(["--profile", "fast", "--fresh", *numbers], environment)
    assert (options.profile, options.fresh) == ("fast", True)
    assert (options.api, options.workers, options.inventories, options.gpu_agents) == (3, 2, 1, 0)
    assert (options.port, options.cloudsim_port, options.database_url) == (9000, 9010, "postgresql://x")


@pytest.mark.parametrize("separator", [["--"], []], ids=["as argparse gets it", "as Typer passes it on"])
def test_a_command_keeps_its_own_options(separator: list[str]) -> None:
    options = parse(["--profile", "fast", *separator, "pytest", "-x", "--fresh", "--", "tests"], {})
    assert (options.fresh, options.command) == (False, ("pytest", "-x", "--fresh", "--", "tests"))
    assert parse(["--fresh"], {}).command == ()


@pytest.mark.parametrize("port", ["http", "0", "70000", "-1"])
def test_a_port_that_is_none_names_its_variable(port: str) -> None:
    with pytest.raises(StartupError, match="GPULEASE_CLOUDSIM_PORT"):
        parse([], {"GPULEASE_CLOUDSIM_PORT": port})


@pytest.mark.parametrize(
    "argv", [["--api", "0"], ["--workers", "many"], ["--gpu-agents", "257"], ["--profile", "slow"]]
)
def test_a_wrong_argument_exits_with_2(argv: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        parse(argv, {})
    assert ended.value.code == 2
    assert argv[0] in capsys.readouterr().err


def test_the_password_of_the_users_own_database_is_taken_in_each_way(tmp_path: Path) -> None:
    url = "postgresql://me@db/gpulease"
    (tmp_path / "password").write_text("p@ss\n")
    for given in (
        {"GPULEASE_DATABASE_PASSWORD": "p@ss"},
        {"GPULEASE_DATABASE_PASSWORD_FILE": str(tmp_path / "password")},
    ):
        assert parse([], {"GPULEASE_DATABASE_URL": url, **given}).database_url == "postgresql://me:p%40ss@db/gpulease"
