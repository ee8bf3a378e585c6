"""Commands that hand over to another program of ours: the local stack, and the dead-man switch."""

import os
import sys
from collections.abc import Sequence
from typing import NoReturn

import typer

LOCAL_STACK = "app.local"
WORKERS = "workers"


def up(context: typer.Context) -> None:
    """Run the local stack here: API, workers, Postgres, Redis and simulated clouds, until Ctrl-C.

    All arguments go to it, such as --profile fast, --fresh, --api 2, --workers 4; `gpulease up --help` shows them.
    """
    hand_over(LOCAL_STACK, context.args)


def deadman(context: typer.Context) -> None:
    """End VMs past their tagged deadline, without API, Postgres or Redis: needs only cloud credentials.

    All arguments go to it, such as --installation ID, --dry-run, --every 60; `gpulease deadman --help` shows them.
    """
    hand_over(WORKERS, ["deadman", *context.args])


def hand_over(module: str, arguments: Sequence[str]) -> NoReturn:
    """Become `python -m module`: signals reach it first hand, and its exit code is this command's.

    The current directory stays off its import path, so that a project's own `app` package is not taken for ours.
    """
    sys.stdout.flush()
    sys.stderr.flush()
    os.execv(sys.executable, command_line(module, arguments))  # noqa: S606 - our own module, no shell


def command_line(module: str, arguments: Sequence[str]) -> list[str]:
    """The stack's command, arguments unchanged."""
    return [sys.executable, "-P", "-m", module, *arguments]
