"""What `python -m workers` does: the two kinds of worker process, and four commands. Each imports what it needs alone."""

import sys
from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType

from app.settings import StartupError, load_settings
from app.settings.memory import settle_memory

Command = Callable[[Sequence[str]], int]

_USAGE = "usage: python -m workers worker|inventory|check|deadman|prices|reconcile"


def main(arguments: list[str]) -> int:
    """Runs until a signal; 0 after SIGTERM or SIGINT, 2 with one line on stderr when it cannot start."""
    if arguments[:1] and arguments[0] in _COMMANDS:
        command = _COMMANDS[arguments[0]]()
        settle_memory()
        return command(arguments[1:])
    if arguments not in (["worker"], ["inventory"]):
        sys.stderr.write(_USAGE + "\n")
        return 2
    try:
        settings = load_settings()
        from workers.running import run  # noqa: PLC0415 - takes longer than everything before it

        run(arguments[0], settings)
    except StartupError as error:
        sys.stderr.write(f"gpulease {arguments[0]}: {error}\n")
        return 2
    return 0


def _check() -> Command:
    from workers.check_accounts import main as command  # noqa: PLC0415 - only this command needs it

    return command


def _deadman() -> Command:
    from workers.deadman import main as command  # noqa: PLC0415 - only this command needs it

    return command


def _prices() -> Command:
    from workers.price_commands import main as command  # noqa: PLC0415 - only this command needs it

    return command


def _reconcile() -> Command:
    from workers.invoices.command import main as command  # noqa: PLC0415 - only this command needs it

    return command


_COMMANDS: Mapping[str, Callable[[], Command]] = MappingProxyType(
    {"check": _check, "deadman": _deadman, "prices": _prices, "reconcile": _reconcile}
)
