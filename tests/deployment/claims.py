"""Which leases a process holds, and how long they stand still without it, as PostgreSQL shows it."""

import time
from collections.abc import Collection

import psutil
import psycopg

from app.db.leases.process_locks import _CLASS
from app.local.waiting import wait_until

_POLL_SECONDS = 0.1

_NUMBERS = """
    SELECT objid::bigint, client_port FROM pg_locks JOIN pg_stat_activity USING (pid)
    WHERE locktype = 'advisory' AND classid = %s AND objsubid = 2 AND client_addr = %s
"""
_NUMBER = "('x' || substr(claim_id::text, 1, 8))::bit(32)::bigint"
_HELD = f"SELECT id FROM lease WHERE held_until > now() AND {_NUMBER} = ANY (%s)"
_WAITING = f"""
    SELECT id FROM lease WHERE id = ANY (%s) AND next_due <= now()
        AND (held_until IS NULL OR held_until <= now() OR {_NUMBER} = ANY (%s))
"""
_STRANDED = f"""
    SELECT id FROM lease WHERE next_due <= now() AND held_until > now()
        AND (substr(claim_id::text, 15, 1) <> '8' OR {_NUMBER} NOT IN (
            SELECT objid::bigint FROM pg_locks WHERE locktype = 'advisory' AND classid = %s AND objsubid = 2 AND granted))
"""
_CALM_SECONDS = 1.5


class Claims:
    """What a superuser of the trial's own sees. One connection."""

    def __init__(self, url: str) -> None:
        self._connection = psycopg.connect(url, autocommit=True)

    def close(self) -> None:
        self._connection.close()

    def numbers(self, address: str, pid: int | None = None) -> list[int]:
        """Of the locks by which processes on the host with this address show that they live; of one process where it is named.

        A process of another network namespace cannot be named: its ports are not to be seen from here.
        """
        ports = None if pid is None else {one.laddr.port for one in psutil.Process(pid).net_connections("tcp")}
        rows = self._connection.execute(_NUMBERS, [_CLASS, address]).fetchall()
        return [number for number, port in rows if ports is None or port in ports]

    def held_by(self, numbers: Collection[int]) -> list[str]:
        """Leases that processes with these numbers are working on."""
        return [lease for (lease,) in self._connection.execute(_HELD.encode(), [list(numbers)])]

    def seconds_until_all_go_on(
        self, leases: Collection[str], gone: Collection[int], since: float, within: float
    ) -> dict[str, float]:
        """For each lease the seconds since `since` until it no longer waits for a process that is gone, `within` at most."""
        left, found = set(leases), dict[str, float]()

        def all_go_on() -> bool:
            waiting = {lease for (lease,) in self._connection.execute(_WAITING.encode(), [list(left), list(gone)])}
            for lease in left - waiting:
                found[lease] = time.monotonic() - since
            left.intersection_update(waiting)
            return not left

        wait_until(all_go_on, timeout=within, poll=_POLL_SECONDS)
        return {**found, **dict.fromkeys(left, within)}

    def stranded(self) -> list[str]:
        """Leases that are due and held by nobody who lives."""
        return [lease for (lease,) in self._connection.execute(_STRANDED.encode(), [_CLASS])]

    def seconds_until_none_is_stranded(self, within: float) -> float:
        """How long from now on there are such leases, whoever left them; `within` at most. Ends when none has shown for a while."""
        began = time.monotonic()
        last = 0.0

        def calm() -> bool:
            nonlocal last
            now = time.monotonic() - began
            if self.stranded():
                last = now
            return now - last > _CALM_SECONDS

        return last if wait_until(calm, timeout=within, poll=_POLL_SECONDS) else within
