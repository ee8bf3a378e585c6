"""Loopback ports: which are free, and which one to take."""

import secrets
import socket
from contextlib import closing

from app.settings import StartupError

LOOPBACK = "127.0.0.1"

_NEVER_GIVEN = range(20_000, 30_000)
"""Below the ports that systems give to outgoing connections (Linux: from 32768, macOS: from 49152)."""
_TRIES = 100


def is_free(port: int, host: str = LOOPBACK) -> bool:
    """Whether a server could listen on `port` now (connections of an earlier server in TIME_WAIT do not count)."""
    with closing(socket.socket(socket.AF_INET, socket.SOCK_STREAM)) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((host, port))
        except OSError:
            return False
    return True


def free_port(host: str = LOOPBACK) -> int:
    """A port that nobody listens on at this moment, and that no outgoing connection is given before it is used.

    Raises StartupError when none is found.
    """
    for _ in range(_TRIES):
        port = secrets.choice(_NEVER_GIVEN)
        if is_free(port, host):
            return port
    raise StartupError(f"no free port was found between {_NEVER_GIVEN[0]} and {_NEVER_GIVEN[-1]}")


def keep_or_free(remembered: int | None) -> int:
    """The port of the last run when it is still free, else another one."""
    return remembered if remembered is not None and is_free(remembered) else free_port()
