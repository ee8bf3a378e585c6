"""A command that runs against a stack."""

import sys

import pytest

from app.local.command import run_command
from app.settings import StartupError


@pytest.mark.parametrize(("code", "expected"), [("import sys; sys.exit(5)", 5), ("pass", 0)])
def test_the_exit_code_is_the_commands_own(code: str, expected: int) -> None:
    assert run_command([sys.executable, "-c", code], {}) == expected


def test_a_signal_is_reported_as_a_shell_does() -> None:
    assert run_command([sys.executable, "-c", "import os; os.kill(os.getpid(), 9)"], {}) == 137


def test_a_command_that_does_not_exist_is_named() -> None:
    with pytest.raises(StartupError, match="no-such-program"):
        run_command(["no-such-program"], {})
