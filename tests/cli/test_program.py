"""The program as a process of its own: exit codes, start-up, the way to the local stack."""

import socket
import subprocess
import sys
from pathlib import Path

import pytest

from app.cli import up
from tests.cli.conftest import Cli
from tests.cli.fake_api import FakeApi, a_lease, problem


def _run(cli: Cli, *arguments: str, **environ: str) -> tuple[int, str, str]:
    return _ended(cli.fork(*arguments, environ=environ))


def _ended(process: "subprocess.Popen[str]") -> tuple[int, str, str]:
    out, err = process.communicate(timeout=30)
    return process.returncode, out, err


def test_success_is_0_and_messages_stay_off_standard_output(api: FakeApi, cli: Cli) -> None:
    api.add(a_lease())
    code, out, err = _ended(cli.start("lease", "show", "lease_00000000000000000000000001"))
    assert (code, err) == (0, "`gpulease lease explain lease_00000000000000000000000001` shows what it waits for\n")
    assert "lease_00000000000000000000000001" in out
    assert "explain" not in out


def test_a_refusal_is_1(api: FakeApi, cli: Cli) -> None:
    api.next_answers.append(problem(403, "forbidden", "needs the role operator"))
    code, out, err = _run(cli, "lease", "show", "lease_00000000000000000000000001")
    assert (code, out) == (1, "")
    assert "needs the role operator" in err


def test_wrong_usage_is_2(cli: Cli) -> None:
    assert _run(cli, "lease", "burn")[0] == 2
    assert _run(cli, "lease", "create", "--ttl", "soon")[0] == 2


def test_no_credentials_is_2_and_says_what_to_do(cli: Cli, tmp_path: Path) -> None:
    code, _, err = _run(cli, "lease", "list", GPULEASE_HOME=str(tmp_path / "none"))
    assert code == 2
    assert "no credentials" in err
    assert "gpulease up" in err
    assert len(err.splitlines()) == 1


def test_no_api_is_3_in_one_line_naming_the_address(cli: Cli) -> None:
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{unused.getsockname()[1]}"
        code, _, err = _run(cli, "lease", "list", GPULEASE_URL=url, GPULEASE_KEY="gpl_x")
    assert code == 3
    assert f"cannot reach the API at {url}: connection refused" in err
    assert "gpulease up" in err
    assert len(err.splitlines()) == 1


def test_help_and_version_need_nothing(cli: Cli, tmp_path: Path) -> None:
    for arguments in (["--help"], ["lease", "create", "--help"], ["--version"]):
        assert _run(cli, *arguments, GPULEASE_HOME=str(tmp_path / "none"))[0] == 0


def test_start_up_loads_no_http_client_and_nothing_of_the_server() -> None:
    script = "import sys, app.cli.main; print(*sorted(sys.modules))"
    loaded = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True).stdout.split()
    assert "app.cli.main" in loaded
    assert "httpx" not in loaded
    ours = {name for name in loaded if name.startswith(("app.", "workers", "cloudsim"))}
    assert not {name for name in ours if not name.startswith("app.cli")}


@pytest.fixture
def stack(tmp_path: Path) -> Path:
    """A folder with a module that stands for the local stack: it tells what it got and ends with code 7."""
    script = "import sys\nprint(sys.argv[1:], flush=True)\nsys.stdin.read()\nraise SystemExit(7)\n"
    (tmp_path / "stand_in.py").write_text(script)
    return tmp_path


def test_up_passes_arguments_on_and_returns_the_stacks_exit_code(stack: Path) -> None:
    script = "import sys; from app.cli.up import hand_over; hand_over('stand_in', sys.argv[1:])"
    arguments = ["--profile", "fast", "--fresh", "--api", "2"]
    done = subprocess.run(
        [sys.executable, "-c", script, *arguments],
        env={"PYTHONPATH": f"{stack}:{Path.cwd()}"},
        input="",
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stdout) == (7, f"{arguments}\n"), done.stderr


def test_up_starts_our_stack_and_not_a_neighbours(tmp_path: Path) -> None:
    line = up.command_line("app.local", ["--help", "--json"])
    assert line == [sys.executable, "-P", "-m", "app.local", "--help", "--json"]
