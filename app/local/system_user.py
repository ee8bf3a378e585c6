"""Who runs PostgreSQL: it refuses to be root, so root hands it to the account `nobody`."""

import os
import pwd
import stat
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class SystemUser:
    """An account of this machine."""

    name: str
    uid: int
    gid: int


def postgres_user() -> SystemUser | None:
    """The account PostgreSQL has to run as, or None for the current one (the normal case: not root)."""
    if os.geteuid() != 0:
        return None
    entry = pwd.getpwnam("nobody")
    return SystemUser(entry.pw_name, entry.pw_uid, entry.pw_gid)


def give(path: Path, user: SystemUser) -> None:
    """Make `user` the owner of the directory `path`, and let it walk there.

    The parent opens to the user's group alone. Directories above it that are closed to everybody get the
    right to be walked through (not read): there is no other way for an account that is not root.
    """
    os.chown(path, user.uid, user.gid)
    parent = path.parent
    if not parent.stat().st_mode & stat.S_IXOTH:
        os.chown(parent, -1, user.gid)
        parent.chmod(stat.S_IMODE(parent.stat().st_mode) | stat.S_IXGRP)
    open_ancestors(parent)


def open_ancestors(path: Path) -> None:
    """Let everybody walk through the directories above `path`."""
    for ancestor in path.absolute().parents:
        _add_mode(ancestor, stat.S_IXOTH)


def open_tree(root: Path) -> None:
    """Let everybody read the program files below `root` (an install under umask 077 keeps them closed)."""
    open_ancestors(root)
    _open(root, root.stat().st_mode)
    _open_below(str(root))


def _open_below(folder: str) -> None:
    with os.scandir(folder) as entries:
        for entry in entries:
            mode = entry.stat(follow_symlinks=False).st_mode
            if stat.S_ISLNK(mode):
                continue
            _open(entry.path, mode)
            if stat.S_ISDIR(mode):
                _open_below(entry.path)


def _open(path: str | Path, mode: int) -> None:
    executable = stat.S_ISDIR(mode) or mode & stat.S_IXUSR
    bits = stat.S_IROTH | (stat.S_IXOTH if executable else 0)
    if mode & bits != bits:
        Path(path).chmod(stat.S_IMODE(mode) | bits)


def _add_mode(path: Path, bits: int) -> None:
    mode = stat.S_IMODE(path.stat().st_mode)
    if mode & bits != bits:
        path.chmod(mode | bits)
