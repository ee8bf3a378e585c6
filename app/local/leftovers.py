"""Ending what an earlier run left behind: its processes are known by a variable in their environment.

A process is never looked up by name or by a bare number: pids are reused.
"""

import signal
from collections.abc import Sequence
from pathlib import Path

import psutil

from app.local.home import Home

MARKER = "GPULEASE_STACK_HOME"
SUPERVISORD = "app.local.supervisord"
"""The module that every stack's supervisord runs."""

ORDERLY_SECONDS = 45.0
KILL_SECONDS = 10.0
# postmaster.pid counts whole seconds, the system its boot time to some hundredths
CLOCK_SLACK_SECONDS = 5.0


def end_leftovers(home: Home) -> int:
    """End every process of an earlier run in `home` and say how many there were.

    The supervisor goes first: it ends its programs in order, PostgreSQL last.
    """
    processes = processes_of(home)
    _end([process for process in processes if is_supervisor(process)], signal.SIGTERM)
    rest = [process for process in processes if process.is_running()]
    _end([process for process in rest if not _is_postgres(process)], signal.SIGTERM)
    _end([process for process in rest if _is_postgres(process)], signal.SIGINT)
    remove_stale_pid_file(home.postgres)
    return len(processes)


def processes_of(home: Home) -> list[psutil.Process]:
    """Every process with this home's marker, but neither this one nor those it was started by."""
    mine = psutil.Process()
    spared = {mine.pid, *(parent.pid for parent in mine.parents())}
    return [p for p in psutil.process_iter() if p.pid not in spared and _marker(p) == str(home.path)]


def _marker(process: psutil.Process) -> str | None:
    try:
        return process.environ().get(MARKER)
    except (psutil.Error, OSError):
        return None  # gone, or somebody else's: not ours in either case


def is_supervisor(process: psutil.Process) -> bool:
    """Whether this is the supervisord of a stack."""
    return SUPERVISORD in argv_of(process)


def _is_postgres(process: psutil.Process) -> bool:
    argv = argv_of(process)
    return bool(argv) and Path(argv[0]).name == "postgres"


def argv_of(process: psutil.Process) -> list[str]:
    """The command line of a process, empty for one that has ended. A process that set a title has its words."""
    try:
        words = [word for word in process.cmdline() if word]
    except psutil.Error:
        return []
    return words[0].split() if len(words) == 1 else words


def _end(processes: Sequence[psutil.Process], orderly: signal.Signals) -> None:
    """Send what ends in order, then SIGKILL; psutil compares the creation time before it sends, so a reused pid is never hit."""
    for process in processes:
        _send(process, orderly)
    _, alive = psutil.wait_procs(processes, timeout=ORDERLY_SECONDS)
    for process in alive:
        _send(process, signal.SIGKILL)
    psutil.wait_procs(alive, timeout=KILL_SECONDS)


def _send(process: psutil.Process, number: signal.Signals) -> None:
    try:
        process.send_signal(number)
    except psutil.NoSuchProcess:
        return


def remove_stale_pid_file(data_dir: Path) -> None:
    """Remove `postmaster.pid` when its server is gone.

    PostgreSQL itself only asks whether the pid exists, and refuses to start when another program has it by now
    (after a restart of the machine, or of a container).
    """
    pid_file = data_dir / "postmaster.pid"
    try:
        lines = pid_file.read_text(encoding="utf-8").splitlines()
        process = psutil.Process(int(lines[0]))
        alive = abs(process.create_time() - int(lines[2])) < CLOCK_SLACK_SECONDS and _is_postgres(process)
    except FileNotFoundError:
        return
    except (psutil.NoSuchProcess, ValueError, IndexError):
        alive = False
    if not alive:
        pid_file.unlink(missing_ok=True)  # somebody else may have removed it by now
