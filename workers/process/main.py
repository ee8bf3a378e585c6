"""What `python -m workers` does: the two kinds of worker process, and four commands. Each imports what it needs alone."""

import sys
from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from types import MappingProxyType

from app.settings import StartupError, load_settings
from app.settings.memory import settle_memory

_COMMANDS: Mapping[str, str] = MappingProxyType(
    {
        "check": "workers.account_checks.command",
        "deadman": "workers.deadman.command",
        "prices": "workers.price_lists.commands",
        "reconcile": "workers.invoices.command",
    }
)
"""The module of each command; its `main` takes the arguments and returns the exit code."""
_USAGE = "usage: python -m workers worker|inventory|check|deadman|prices|reconcile"


def main(arguments: list[str]) -> int:
    """Runs until a signal; 0 after SIGTERM or SIGINT, 2 with one line on stderr when it cannot start."""
    if arguments[:1] and arguments[0] in _COMMANDS:
        command: Callable[[Sequence[str]], int] = import_module(_COMMANDS[arguments[0]]).main
        settle_memory()
        return command(arguments[1:])
    if arguments not in (["worker"], ["inventory"]):
        sys.stderr.write(_USAGE + "\n")
        return 2
    try:
        settings = load_settings()
        from workers.process.running import run  # noqa: PLC0415 - takes longer than everything before it

        run(arguments[0], settings)
    except StartupError as error:
        sys.stderr.write(f"gpulease {arguments[0]}: {error}\n")
        return 2
    return 0
