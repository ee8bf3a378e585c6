"""How long PostgreSQL keeps the session of a host that has vanished: the same for every process, at both ends.

A host that vanishes inside a transaction keeps its row locks, and every other transaction on these rows waits. A worker
that vanishes keeps its advisory lock, and nobody takes over its claims. Without these limits both last for two hours,
which is the default keepalive time of Linux.
"""

from collections.abc import Mapping

IDLE_IN_TRANSACTION_SECONDS = 30.0
"""No transaction here waits for anything but the database, so none is idle for long."""

_IDLE, _INTERVAL, _COUNT = 10, 5, 3
_UNACKNOWLEDGED_SECONDS = 20

SERVER_SETTINGS: Mapping[str, str] = {
    "idle_in_transaction_session_timeout": f"{int(IDLE_IN_TRANSACTION_SECONDS)}s",
    "tcp_keepalives_idle": str(_IDLE),
    "tcp_keepalives_interval": str(_INTERVAL),
    "tcp_keepalives_count": str(_COUNT),
    "tcp_user_timeout": str(1000 * _UNACKNOWLEDGED_SECONDS),
}
"""PostgreSQL's settings of a session, set on each new connection (`connections.py`).

The server ends the session of a silent host after 25 seconds, and one that is idle in a transaction after 30.
"""

LIBPQ_PARAMETERS: Mapping[str, int] = {
    "keepalives": 1,
    "keepalives_idle": _IDLE,
    "keepalives_interval": _INTERVAL,
    "keepalives_count": _COUNT,
    "tcp_user_timeout": 1000 * _UNACKNOWLEDGED_SECONDS,
}
"""The client's end of the same, for libpq: a server that vanished is noticed as soon."""


def server_settings(idle_in_transaction_seconds: float) -> dict[str, str]:
    """SERVER_SETTINGS with another limit for a transaction that stands still."""
    idle = {"idle_in_transaction_session_timeout": f"{round(1000 * idle_in_transaction_seconds)}ms"}
    return {**SERVER_SETTINGS, **idle}
