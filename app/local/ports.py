"""Loopback ports: which are free, and which one to take."""

import fcntl
import os
import secrets
import socket
from collections import deque
from contextlib import closing
from functools import cache

from app.settings import StartupError

LOOPBACK = "127.0.0.1"

_NEVER_GIVEN = range(20_000, 30_000)
"""Below the ports that systems give to outgoing connections (Linux: from 32768, macOS: from 49152)."""
_TRIES = 100
_SHARED = "/tmp"  # noqa: S108 - one file for all processes of a user, whatever TMPDIR says; it is opened safely
_MOST = 500
_chosen: deque[int] = deque()
"""Ports that this process has reserved, the latest ones last."""


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

    No other process of this user is given it while this one lives. Raises StartupError when none is found.
    """
    for _ in range(_TRIES):
        port = secrets.choice(_NEVER_GIVEN)
        if port not in _chosen and is_free(port, host) and _reserve(port):
            return port
    raise StartupError(f"no free port was found between {_NEVER_GIVEN[0]} and {_NEVER_GIVEN[-1]}")


def keep_or_free(remembered: int | None) -> int:
    """The port of the last run when it is still free, else another one."""
    if remembered is not None and is_free(remembered) and _reserve(remembered):
        return remembered
    return free_port()


def _reserve(port: int) -> bool:
    """Locks the port's byte of one file. The system drops the lock with the process. False: another process has it."""
    try:
        fcntl.lockf(_reservations(), fcntl.LOCK_EX | fcntl.LOCK_NB, 1, port)
    except (BlockingIOError, PermissionError):
        return False
    if port not in _chosen:
        _chosen.append(port)
    while len(_chosen) > _MOST:
        fcntl.lockf(_reservations(), fcntl.LOCK_UN, 1, _chosen.popleft())
    return True


@cache
def _reservations() -> int:
    """The file's descriptor. It stays open: closing any descriptor of the file would drop all locks of the process."""
    flags = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC
    return os.open(f"{_SHARED}/gpulease-ports-{os.getuid()}", flags, 0o600)
