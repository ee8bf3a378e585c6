"""Errors that are about the server behind a connection, not about a statement: they end the connection.

After a failover a pool may lead to a standby, to a demoted primary or to a server that shuts down. Such a connection
stays open, and each later statement on it would fail as the first one did.
"""

import time
from collections.abc import MutableMapping
from typing import Any

READ_ONLY = "25006"
"""SQLSTATE of a write on a read-only server, such as a standby that is not promoted yet."""

_CLASSES = ("08", "28", "53", "57P", "58")
"""The connection is broken, the login is not accepted, resources are exhausted (connections, disk, memory), the server
shuts down or starts, its files or its host fail. Class 57 without P is about the statement (a time-out)."""
_STATES = frozenset({READ_ONLY, "25P03", "25P04", "26000", "3D000"})
"""Besides READ_ONLY: the server ended a session that was idle or took too long in a transaction, has not the statement
that this connection prepared, or has no such database."""
_RIGHT_MISSING = "42501"
"""A pooler that gave the session to somebody else has taken the role from it. It may be a fault of the program, too."""

_OPENED = "gpulease.opened"
_READ_ONLY = "gpulease.read_only"
IS_READ_ONLY = "current_setting('transaction_read_only')"
"""As SQL: `on` on a standby, and where the database, the role or the server is read-only by default."""

Info = MutableMapping[Any, Any]
"""SQLAlchemy's notes of a pooled connection. The pool empties them when it replaces the connection."""


def is_about_server(sqlstate: str) -> bool:
    """Whether another connection may succeed where this one failed, with the same statement."""
    return sqlstate.startswith(_CLASSES) or sqlstate in _STATES


def ends_connection(sqlstate: str) -> bool:
    """Whether a connection must not be used again after this error."""
    return is_about_server(sqlstate) or sqlstate == _RIGHT_MISSING


def note_opened(info: Info, read_only: str) -> None:
    """Notes when a connection was opened, and the value of IS_READ_ONLY at that time."""
    info[_OPENED] = time.monotonic()
    info[_READ_ONLY] = read_only == "on"


def opened_read_only(info: Info) -> bool:
    """Whether the connection led to a read-only server when it was opened. PostgreSQL keeps a session as it began."""
    return bool(info[_READ_ONLY])


def opened_before(info: Info, moment: float) -> bool:
    """`moment` on the monotonic clock."""
    return bool(info[_OPENED] < moment)
