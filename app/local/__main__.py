"""`python -m app.local`: run the stack in the foreground until Ctrl-C or SIGTERM.

Exit codes: 0 ended as asked, 1 the supervisor was killed, 2 could not start (one clear message on stderr). With a command:
the command's own, and 130 when the stack was asked to end before the command has ended.
"""

import gc
import os
import signal
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING

from app.local.first_commands import client_command, first_lines
from app.local.home import Home, claimed, find_home, start_over
from app.local.leftovers import end_leftovers
from app.local.memory import recall
from app.local.options import Options, parse
from app.local.progress import Progress
from app.local.taken_ports import check_ports
from app.settings import StartupError, load_accounts
from app.settings.memory import settle_memory

if TYPE_CHECKING:
    from app.local.demo import Credentials
    from app.local.stack import Stack

ASKED, KILLED, REFUSED, INTERRUPTED = 0, 1, 2, 130
SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class StopRequested(BaseException):
    """Ctrl-C, SIGTERM or a closed terminal: no error, and no `except Exception` may swallow it."""


def _ask(_number: int, _frame: FrameType | None) -> None:
    _ignore_signals()
    raise StopRequested


def _ignore_signals() -> None:
    for number in SIGNALS:
        signal.signal(number, signal.SIG_IGN)


def main(argv: Sequence[str] | None = None) -> int:
    """Run until asked to end."""
    for number in SIGNALS:
        signal.signal(number, _ask)
    asked = ASKED
    try:
        options = parse(sys.argv[1:] if argv is None else argv, os.environ)
        asked = INTERRUPTED if options.command else ASKED
        home = find_home(os.environ)
        with claimed(home):
            return _run(home, options, Progress())
    except StartupError as error:
        sys.stderr.write(f"gpulease: {error}\n")
        return REFUSED
    except StopRequested:
        return asked


def _run(home: Home, options: Options, progress: Progress) -> int:
    progress.say(f"gpulease, profile {options.profile}, state in {home.path}")
    if options.config is not None:
        if Path(options.config).absolute() == home.accounts_file.absolute():
            options = replace(options, config=None)  # the simulated accounts, which the stack writes anew
        else:
            load_accounts(Path(options.config))
    ended = end_leftovers(home)
    if ended:
        progress.say(f"  ended {ended} processes that an earlier run left behind")
    check_ports(options)
    if options.fresh:
        start_over(home)
    stack = _stack(home, options, progress)
    try:
        credentials = stack.bring_up()
        if options.command:
            return _run_command(options, credentials)
        gpulease = client_command(home, Path.cwd(), Path(sys.executable), os.environ.get("PATH"))
        progress.say(first_lines(home, credentials, gpulease, stack.accounts))
        stack.wait()
    finally:
        _ignore_signals()
        stack.take_down()
        end_leftovers(home)
    sys.stderr.write(f"gpulease: supervisord was killed, see {home.logs}\n")
    return KILLED


def _stack(home: Home, options: Options, progress: Progress) -> "Stack":
    from app.local.stack import Stack, make_plan  # noqa: PLC0415 - takes longer than every check before it

    settle_memory()
    return Stack(make_plan(home, options, recall(home.state_file), os.environ), progress)


def _run_command(options: Options, credentials: "Credentials") -> int:
    from app.local.command import command_environment, run_command  # noqa: PLC0415 - as the stack

    return run_command(options.command, command_environment(credentials, os.environ))


if __name__ == "__main__":
    # a quarter of the start; `settle_memory` switches it on
    gc.disable()
    sys.exit(main())
