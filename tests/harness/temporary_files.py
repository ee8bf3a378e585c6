"""Where tests keep temporary files: in memory where there is room.

Most of them are PostgreSQL's: a cluster has a thousand, and tests soon delete it (docs/decisions/0070).
"""

import os
import tempfile
from pathlib import Path

import psutil

MEMORY = Path("/dev/shm")  # noqa: S108 - a file system, and no file of a name that others know
ROOM = 4 * 1024**3
"""Bytes. A run needs a quarter of it."""


def keep_in_memory(folder: Path = MEMORY) -> None:
    """Makes pytest, `tempfile` and the programs that tests start use this folder, unless TMPDIR names another one."""
    if "TMPDIR" not in os.environ and _has_room(folder):
        os.environ["TMPDIR"] = str(folder)
        tempfile.tempdir = None


def _has_room(folder: Path) -> bool:
    """Tests also execute files."""
    if not os.access(folder, os.W_OK | os.X_OK):
        return False
    system = os.statvfs(folder)
    free = min(system.f_bavail * system.f_frsize, psutil.virtual_memory().available)
    return free >= ROOM and not system.f_flag & getattr(os, "ST_NOEXEC", 0)
