"""`python -m cloudsim`: simulated clouds on a loopback port."""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import errno
import gc
import signal
import socket
import sys
from collections.abc import Callable, Coroutine, Generator, Iterable, Sequence
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from cloudsim.gpus.agents import GpuAgents
from cloudsim.group_checks import GroupChecks
from cloudsim.server import SimServer, Simulation, bind
from cloudsim.settings import PROFILES, Settings
from cloudsim.ssh import server as ssh
from cloudsim.ssh.reports import HostKeyReports
from cloudsim.store import StateUnreadable
from cloudsim.world import World

USAGE_ERROR = 2
GC_THRESHOLD = (50_000, 20, 20)
"""A world of 100,000 VMs has millions of objects and hardly a cycle among them."""


class _Server(SimServer):
    """Ends with status 0 on SIGTERM and SIGINT."""

    @contextlib.contextmanager
    def capture_signals(self) -> Generator[None, None, None]:
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, self._end)
        yield

    def _end(self) -> None:
        self.should_exit = True


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m cloudsim", description=__doc__)
    parser.add_argument("--port", type=int, default=8010)
    parser.add_argument("--host", default="127.0.0.1", help="a loopback address")
    parser.add_argument("--profile", choices=list(PROFILES), default="realistic")
    parser.add_argument("--ssh-port", type=int, help="serve logins to all VMs at this port of the loopback device")
    parser.add_argument("--state", type=Path, help="file that keeps the world over restarts")
    parser.add_argument("--seed", type=int, help="makes ids and chances repeat")
    group = parser.add_argument_group("settings over the profile's")
    for name in Settings.model_fields:
        group.add_argument(f"--{name.replace('_', '-')}", dest=name)
    return parser


def _settings(arguments: argparse.Namespace) -> Settings:
    options = {name: getattr(arguments, name) for name in Settings.model_fields}
    return PROFILES[arguments.profile].changed(**{name: value for name, value in options.items() if value is not None})


def main(argv: Sequence[str] | None = None) -> int:
    """Serve until a signal ends the process. Returns 2 when host, port or a setting cannot be used."""
    arguments = _parser().parse_args(argv)
    try:
        settings = _settings(arguments)
        listener = bind(arguments.host, arguments.port)
        logins, addresses = ssh.bind(arguments.ssh_port) if arguments.ssh_port else (None, {})
    except ValidationError as error:
        return _refuse("; ".join(f"{part['loc'][0]}: {part['msg']}" for part in error.errors()))
    except ValueError as error:
        return _refuse(str(error))
    except OSError as error:
        ports = " or ".join(str(port) for port in (arguments.port, arguments.ssh_port) if port)
        taken = error.errno == errno.EADDRINUSE
        return _refuse(f"port {ports} on {arguments.host} is taken" if taken else str(error))
    try:
        if settings.vm_address is None:
            settings = settings.changed(**addresses)
        simulation = Simulation(settings, seed=arguments.seed, state=arguments.state, beside=_beside(logins))
    except StateUnreadable as error:
        listener.close()
        return _refuse(str(error))
    gc.freeze()
    gc.set_threshold(*GC_THRESHOLD)
    _Server(simulation).run(sockets=[listener])
    return 0


def _beside(logins: socket.socket | None) -> Callable[[World], Iterable[Coroutine[Any, Any, None]]]:
    """The VMs' agents and checks of groups; their SSH servers and the reports of host keys, if there is a socket for them."""

    def beside(world: World) -> Iterable[Coroutine[Any, Any, None]]:
        yield GpuAgents(world).run()
        yield GroupChecks(world).run()
        if logins is not None:
            yield ssh.SshServer(world, logins).serve()
            yield HostKeyReports(world).report()

    return beside


def _refuse(why: str) -> int:
    sys.stderr.write(f"cloudsim: {why}\n")
    return USAGE_ERROR


if __name__ == "__main__":
    sys.exit(main())
