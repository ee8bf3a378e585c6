"""Commands that run another program of gpulease: the local stack, and the dead-man switch."""

import os
import sys
from collections.abc import Sequence
from importlib.util import find_spec
from typing import NoReturn

import typer

from app.cli.errors import USAGE

LOCAL_STACK = "app.local"
WORKERS = "workers"

_SERVER_PACKAGES = {
    LOCAL_STACK: ("'gpulease[local]'", ("sqlalchemy", "celery", "supervisor")),
    WORKERS: ("'gpulease[server]'", ("sqlalchemy", "boto3")),
}
"The extra that a program needs, and packages that only this extra installs."


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
    Exits with code 2 if the extra that contains the program's packages is not installed.
    """
    require_extra(*_SERVER_PACKAGES.get(module, ("", ())))
    sys.stdout.flush()
    sys.stderr.flush()
    os.execv(sys.executable, command_line(module, arguments))  # noqa: S606 - our own module, no shell


def require_extra(extra: str, packages: Sequence[str]) -> None:
    """Exits with code 2 if one of these packages, which the extra installs, is missing."""
    if any(find_spec(package) is None for package in packages):
        sys.stderr.write(f"error: this installation is the client alone: pip install {extra} adds this command\n")
        raise typer.Exit(USAGE)


def command_line(module: str, arguments: Sequence[str]) -> list[str]:
    """The stack's command, arguments unchanged."""
    return [sys.executable, "-P", "-m", module, *arguments]
