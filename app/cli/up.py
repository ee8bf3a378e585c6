"""Commands that run another program of gpulease: the local stack, and the dead-man switch."""

import os
import sys
from collections.abc import Sequence
from typing import NoReturn

import typer

LOCAL_STACK = "app.local"
WORKERS = "workers"


def up(context: typer.Context) -> None:
    """Run the local stack: API, workers, Postgres, Redis and simulated clouds, until Ctrl-C.

    All arguments are passed on, such as --profile fast, --fresh, --api 2, --workers 4; `gpulease up --help` lists them.
    """
    hand_over(LOCAL_STACK, context.args)


def deadman(context: typer.Context) -> None:
    """End VMs past their tagged deadline, without API, Postgres or Redis. Needs only cloud credentials.

    All arguments are passed on, such as --installation ID, --dry-run, --every 60; `gpulease deadman --help` lists them.
    """
    hand_over(WORKERS, ["deadman", *context.args])


def hand_over(module: str, arguments: Sequence[str]) -> NoReturn:
    """Replaces the process with `python -m module`. Signals and the exit code pass directly.

    The current directory is not on the import path, so that a project's own `app` package does not shadow ours.
    """
    sys.stdout.flush()
    sys.stderr.flush()
    os.execv(sys.executable, command_line(module, arguments))  # noqa: S606 - our own module, no shell


def command_line(module: str, arguments: Sequence[str]) -> list[str]:
    """The stack's command, arguments unchanged."""
    return [sys.executable, "-P", "-m", module, *arguments]
