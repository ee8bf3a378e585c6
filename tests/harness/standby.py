"""A primary PostgreSQL server with a streaming standby, and one address that leads to whichever of them is in charge.

The standby can be cut off from the primary, so that it misses commits, and be promoted after the primary was killed.
"""

import os
import signal
import socket
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import psutil
import psycopg

from app.local.embedded_postgres import EmbeddedCluster, program, running
from app.local.ports import LOOPBACK, free_port
from app.local.system_user import give, postgres_user
from app.local.waiting import wait_until

PATIENCE = 60.0
_CHUNK = 65_536


class Forwarder:
    """Passes the connections to one port on to another one, which may change."""

    def __init__(self, target: int) -> None:
        self._target = target
        self._lock = threading.Lock()
        self._open: set[socket.socket] = set()
        self._listener = socket.create_server((LOOPBACK, 0))
        self.port: int = self._listener.getsockname()[1]

    def __enter__(self) -> Self:
        threading.Thread(target=self._accept, daemon=True).start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        with suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        self.point_to(self._target)

    def point_to(self, target: int) -> None:
        """New connections go to the port `target`; existing connections end."""
        with self._lock:
            self._target = target
            connections, self._open = self._open, set()
        for connection in connections:
            _close(connection)

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            try:
                server = socket.create_connection((LOOPBACK, self._target))
            except OSError:
                client.close()
                continue
            with self._lock:
                self._open |= {client, server}
            for source, sink in ((client, server), (server, client)):
                threading.Thread(target=self._pass, args=(source, sink), daemon=True).start()

    def _pass(self, source: socket.socket, sink: socket.socket) -> None:
        with suppress(OSError):
            while chunk := source.recv(_CHUNK):
                sink.sendall(chunk)
        with self._lock:
            self._open -= {source, sink}
        for connection in (source, sink):
            _close(connection)


def _close(connection: socket.socket) -> None:
    with suppress(OSError):
        connection.shutdown(socket.SHUT_RDWR)
    connection.close()


@dataclass(frozen=True)
class Pair:
    """`admin_url` leads to the server in charge: the primary, and after `fail_over` the promoted standby."""

    primary: EmbeddedCluster
    standby: EmbeddedCluster
    forwarder: Forwarder

    @property
    def admin_url(self) -> str:
        return replace(self.primary, port=self.forwarder.port).admin_url

    def stop_streaming(self) -> None:
        """Waits until the standby has replayed every commit so far. It receives none of the later ones."""
        wait_until_replayed(self.primary, self.standby)
        cut_off(self.standby)

    def fail_over(self) -> None:
        """Kills the primary, promotes the standby and sends all connections there."""
        kill(self.primary)
        promote(self.standby)
        self.forwarder.point_to(self.standby.port)


@contextmanager
def running_pair(folder: Path, primary: EmbeddedCluster) -> Iterator[Pair]:
    """Makes a standby of a running primary, and starts it. Its data are in `folder`."""
    standby = replace(primary, data_dir=folder / "standby", port=free_port())
    copy(primary, standby.data_dir)
    with running(standby), Forwarder(primary.port) as forwarder:
        yield Pair(primary, standby, forwarder)


def copy(primary: EmbeddedCluster, data_dir: Path) -> None:
    """Copies the data of a running primary. A server that starts on the copy is a standby of the primary."""
    data_dir.mkdir(mode=0o700)
    identity: dict[str, Any] = {}
    user = postgres_user()
    if user is not None:
        give(data_dir, user)
        identity = {"user": user.uid, "group": user.gid, "extra_groups": []}
    argv = [
        *(str(program("pg_basebackup")), "--dbname", primary.admin_url, "--pgdata", str(data_dir)),
        *("--checkpoint", "fast", "--wal-method", "stream", "--write-recovery-conf", "--no-sync"),
    ]
    environment = {name: value for name, value in os.environ.items() if not name.startswith("PG")}
    done = subprocess.run(
        argv, capture_output=True, text=True, check=False, cwd="/", env=environment | {"LC_ALL": "C"}, **identity
    )
    assert done.returncode == 0, done.stderr


def wait_until_replayed(primary: EmbeddedCluster, standby: EmbeddedCluster) -> None:
    """Waits until the standby has replayed every commit so far. The primary has `synchronous_commit` on."""
    (position,) = ask(primary, "SELECT pg_current_wal_flush_lsn()::text")
    replayed = f"SELECT pg_last_wal_replay_lsn() >= '{position}'::pg_lsn"
    assert wait_until(lambda: ask(standby, replayed) == (True,), timeout=PATIENCE), "the standby does not follow"


def cut_off(standby: EmbeddedCluster) -> None:
    """Ends the standby's connection to its primary, for good."""
    ask(standby, "ALTER SYSTEM SET primary_conninfo = ''")
    ask(standby, "SELECT pg_reload_conf()")
    receiving = "SELECT count(*) FROM pg_stat_wal_receiver"
    assert wait_until(lambda: ask(standby, receiving) == (0,), timeout=PATIENCE), "the standby still receives"


def promote(standby: EmbeddedCluster) -> None:
    """Makes the standby a primary, on the next timeline."""
    assert ask(standby, "SELECT pg_promote()") == (True,)


def kill(cluster: EmbeddedCluster) -> None:
    """Ends a server at once: no checkpoint, nothing is sent to a standby any more."""
    server = postmaster(cluster.data_dir)
    children = server.children()
    server.send_signal(signal.SIGKILL)
    gone, alive = psutil.wait_procs([server, *children], timeout=PATIENCE)
    assert not alive, (gone, alive)


def postmaster(data_dir: Path) -> psutil.Process:
    """The first process of the server that runs on these data."""
    return psutil.Process(int((data_dir / "postmaster.pid").read_text().split()[0]))


def ask(cluster: EmbeddedCluster, statement: str) -> tuple[Any, ...]:
    """The first row of one statement as the superuser; an empty one for a statement without rows."""
    with psycopg.connect(cluster.admin_url, autocommit=True) as connection:
        done = connection.execute(statement.encode())
        return (done.fetchone() or ()) if done.description else ()
