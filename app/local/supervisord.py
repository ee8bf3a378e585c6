"""`python -m app.local.supervisord`: supervisord that forks Python programs instead of starting new interpreters.

It reads from its standard input, as JSON, variables for single programs: an object of names and values by the
program's name. Its own environment reaches all programs and therefore holds none of these.

It imports the modules that `--import` names before it starts anything. A program then starts with these modules loaded,
which saves up to three seconds of CPU, and all programs share their memory.

macOS starts new interpreters, because Apple's frameworks must not be used after a fork.
"""

import gc
import json
import os
import runpy
import signal
import sys
from collections.abc import Mapping, Sequence
from importlib import import_module
from typing import NoReturn

from setproctitle import setproctitle
from supervisor import supervisord
from supervisor.options import ServerOptions

IMPORT = "--import"
FORKS = sys.platform == "linux"


class _ForkingOptions(ServerOptions):
    """The system calls of supervisord. It makes `execve` in the child, after everything else."""

    private: Mapping[str, Mapping[str, str]] = {}
    """Variables by the program that gets them."""

    def execve(self, filename: str, argv: Sequence[str], env: Mapping[str, str]) -> NoReturn:
        """Runs `python -m` in this process, and replaces the process by any other program."""
        complete = {**env, **self.private.get(env["SUPERVISOR_GROUP_NAME"], {})}
        if FORKS and list(argv[:2]) == [sys.executable, "-m"]:
            become(argv[2], argv, complete)
        super().execve(filename, argv, complete)


def become(module: str, argv: Sequence[str], env: Mapping[str, str]) -> NoReturn:
    """Runs the module as a new interpreter does, and ends the process with its exit code."""
    _restore_signals()
    # before the environment changes: it finds its place in memory by the environment
    setproctitle(" ".join(["python", *argv[1:]]))
    os.environ.clear()
    os.environ.update(env)
    sys.argv = list(argv[2:])
    try:
        runpy.run_module(module, run_name="__main__", alter_sys=True)
        code = 0
    except SystemExit as end:
        code = _exit_code(end)
    except BaseException as error:  # noqa: BLE001 - an interpreter prints whatever ends it
        sys.excepthook(type(error), error, error.__traceback__)
        code = 1
    sys.stdout.flush()
    sys.stderr.flush()
    # not `sys.exit`, which would run the rest of supervisord
    os._exit(code)


def _restore_signals() -> None:
    """Removes the handlers of supervisord, which would end supervisord."""
    signal.set_wakeup_fd(-1)
    for number in signal.valid_signals():
        if callable(signal.getsignal(number)):
            signal.signal(number, signal.SIG_DFL)
    signal.signal(signal.SIGINT, signal.default_int_handler)


def _exit_code(end: SystemExit) -> int:
    if end.code is None or isinstance(end.code, int):
        return end.code or 0
    sys.stderr.write(f"{end.code}\n")
    return 1


def main(arguments: Sequence[str]) -> None:
    """Takes `--import MODULE` as often as needed, then supervisord's own arguments."""
    _ForkingOptions.private = json.load(sys.stdin)
    rest = list(arguments)
    # imports leave no garbage: looking for it takes a sixth of their time
    gc.disable()
    while rest[:1] == [IMPORT]:
        if FORKS:
            import_module(rest[1])
        del rest[:2]
    # a collection would write to each object, and the processes would share no memory
    gc.freeze()
    gc.enable()
    supervisord.ServerOptions = _ForkingOptions
    supervisord.main(rest)


if __name__ == "__main__":
    main(sys.argv[1:])
