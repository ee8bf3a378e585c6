"""Loopback ports: which are free, and which one to take."""

import socket
from contextlib import closing

LOOPBACK = "127.0.0.1"


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
    """A port that nobody listens on at this moment."""
    with closing(socket.socket(socket.AF_INET, socket.SOCK_STREAM)) as probe:
        probe.bind((host, 0))
        port: int = probe.getsockname()[1]
    return port


def keep_or_free(remembered: int | None) -> int:
    """The port of the last run when it is still free, else another one."""
    return remembered if remembered is not None and is_free(remembered) else free_port()
