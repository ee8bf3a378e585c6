"""The shell of a simulated VM: a few commands that read facts of the VM, and files, which exist on its volumes alone.

It starts no process on this machine.
"""

from __future__ import annotations

import shlex
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Protocol

from cloudsim.world import Gpu

NOT_FOUND = 127
_WRONG_USE = 2
_MOST = 255
_REDIRECTION = ">"
_NO_FILE = "No such file or directory (simulated: files exist on volumes alone)"


class Files(Protocol):
    """The files of a VM."""

    def read(self, path: str) -> str | None:
        """The text of a file, or None."""

    def write(self, path: str, text: str) -> bool:
        """Whether the path can be written. It then holds the text."""


@dataclass(frozen=True, slots=True)
class Facts:
    """What the commands show. `uptime_seconds`: since the launch."""

    user: str
    host: str
    vm_id: str
    instance_type: str
    zone: str
    vcpus: int
    memory_mib: int
    gpu: Gpu
    uptime_seconds: float
    files: Files


@dataclass(frozen=True, slots=True)
class Result:
    """Output and exit status of one command. `ends`: the shell ends with it."""

    output: str = ""
    error: str = ""
    status: int = 0
    ends: bool = False


def banner(facts: Facts) -> str:
    """The first lines of a session."""
    return (
        "SIMULATED VM: no program runs here, and no GPU exists.\n"
        f"{facts.vm_id}, {facts.instance_type} in {facts.zone}, {_gpus(facts.gpu)}.\n"
        "`help` lists the commands; `exit` or Ctrl-D ends the session.\n"
    )


def prompt(facts: Facts) -> str:
    """The prompt, which repeats that nothing here is real."""
    return f"{facts.user}@{facts.host} (simulated)$ "


def run(line: str, facts: Facts) -> Result:
    """Runs one line: one command and its arguments. `> PATH` at the end writes the output into a file."""
    try:
        words = shlex.split(line)
    except ValueError as error:
        return Result(error=f"simulated shell: {error}\n", status=_WRONG_USE)
    if not words:
        return Result()
    command = _COMMANDS.get(words[0])
    if command is None:
        known = ", ".join(sorted(_COMMANDS))
        return Result(error=f"{words[0]}: not part of the simulation. Commands: {known}\n", status=NOT_FOUND)
    if words[-2:-1] != [_REDIRECTION]:
        return command(words[1:], facts)
    result = command(words[1:-2], facts)
    if not facts.files.write(words[-1], result.output):
        return Result(error=f"{words[-1]}: {_NO_FILE}\n", status=1)
    return replace(result, output="")


def _nvidia_smi(words: list[str], facts: Facts) -> Result:
    gpu = facts.gpu
    if words == ["-L"]:
        return Result("".join(f"GPU {n}: {gpu.name} (simulated)\n" for n in range(gpu.count)))
    if words:
        return Result(error="nvidia-smi: the simulation has no option but -L\n", status=_WRONG_USE)
    rule = "+------+----------------------------------+----------------------+----------+\n"
    title = "| NVIDIA-SMI, simulated: facts of the instance type, not of a device        |\n"
    head = "| GPU  | Name                             |         Memory-Usage | GPU-Util |\n"
    rows = (
        f"| {n:>3}  | {f'{gpu.manufacturer} {gpu.name}':<32.32} | {f'0MiB / {gpu.memory_mib}MiB':>20} |       0% |\n"
        for n in range(gpu.count)
    )
    return Result(rule + title + rule + head + rule + "".join(rows) + rule)


def _exit(words: list[str], _facts: Facts) -> Result:
    status = int(words[0]) % (_MOST + 1) if words and words[0].isdecimal() else 0
    return Result(status=status, ends=True)


def _help(_words: list[str], _facts: Facts) -> Result:
    return Result(f"Commands of the simulated VM: {', '.join(sorted(_COMMANDS))}\n")


def _cloud_init(_words: list[str], _facts: Facts) -> Result:
    return Result("status: done (simulated: no start-up script runs here)\n")


def _cat(words: list[str], facts: Facts) -> Result:
    texts = {path: facts.files.read(path) for path in words}
    missing = [path for path, text in texts.items() if text is None]
    error = "".join(f"cat: {path}: {_NO_FILE}\n" for path in missing)
    return Result("".join(text for text in texts.values() if text is not None), error, status=int(bool(missing)))


def _sudo(words: list[str], facts: Facts) -> Result:
    return run(shlex.join(words), facts)


def _gpus(gpu: Gpu) -> str:
    return f"{gpu.count} × {gpu.name} with {gpu.memory_mib // 1024} GiB"


def _status(number: int) -> Callable[[list[str], Facts], Result]:
    return lambda _words, _facts: Result(status=number)


_COMMANDS: Mapping[str, Callable[[list[str], Facts], Result]] = {
    "cat": _cat,
    "cloud-init": _cloud_init,
    "echo": lambda words, _: Result(" ".join(words) + "\n"),
    "exit": _exit,
    "false": _status(1),
    "help": _help,
    "hostname": lambda _, facts: Result(f"{facts.host}\n"),
    "logout": _exit,
    "lscpu": lambda _, facts: Result(f"CPU(s): {facts.vcpus} (simulated)\nMemory: {facts.memory_mib} MiB\n"),
    "nvidia-smi": _nvidia_smi,
    "pwd": lambda _, facts: Result(f"/home/{facts.user}\n"),
    "sudo": _sudo,
    "true": _status(0),
    "uname": lambda _, facts: Result(f"Linux {facts.host} (simulated {facts.instance_type})\n"),
    "uptime": lambda _, facts: Result(f"up {facts.uptime_seconds:.0f} s\n"),
    "whoami": lambda _, facts: Result(f"{facts.user}\n"),
}
