"""What Redis and PostgreSQL do instead of their work, each as a context manager that lasts as long as the fault."""

import signal
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

import anyio.from_thread
import psycopg

from app.local import embedded_postgres, embedded_redis
from app.local.embedded_postgres import DATABASE, EmbeddedCluster
from app.local.embedded_redis import EmbeddedRedis
from app.local.ports import free_port
from tests.harness import redis_proxy
from tests.harness.redis_proxy import BROKEN, ENDING, REPLIES, RESET, Proxy
from tests.harness.refusing_server import refusing_server
from tests.harness.standby import Pair, ask, postmaster, running_pair

_PASSWORD = "secret"
_BETWEEN_TERMINATIONS = 0.2
_TABLES = "SELECT tablename FROM pg_tables WHERE schemaname = 'public'"
_WRITE = "CREATE OR REPLACE FUNCTION {name}() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN {does}; END $$"
_TRIGGER = """
    CREATE CONSTRAINT TRIGGER {name} AFTER INSERT OR UPDATE ON {table} {when}
    FOR EACH ROW EXECUTE FUNCTION {name}()
"""
_FAIL = "RAISE EXCEPTION 'could not extend file: No space left on device' USING ERRCODE = '53100'"


@dataclass(frozen=True)
class Dependencies:
    """Redis behind a proxy, and PostgreSQL with a standby behind a forwarder."""

    proxy: Proxy
    pair: Pair

    @property
    def database_url(self) -> str:
        """The program's database, through the forwarder."""
        return replace(self.pair.primary, port=self.pair.forwarder.port).url()

    @property
    def superuser_url(self) -> str:
        """The same database, past the forwarder."""
        return self.pair.primary.url(DATABASE, embedded_postgres.SUPERUSER)


@contextmanager
def running(folder: Path) -> Iterator[Dependencies]:
    """Both servers, with their data in `folder`."""
    cluster = EmbeddedCluster(folder / "primary", free_port(), _PASSWORD)
    broker = EmbeddedRedis(folder / "redis", free_port(), _PASSWORD)
    with (
        embedded_postgres.running(cluster),
        running_pair(folder, cluster) as pair,
        embedded_redis.running(broker),
        redis_proxy.running(broker.url) as proxy,
    ):
        yield Dependencies(proxy, pair)


Fault = Callable[[Dependencies], AbstractContextManager[None]]


@contextmanager
def _nothing(_servers: Dependencies) -> Iterator[None]:
    yield


@contextmanager
def _redis_answers(reply: str, servers: Dependencies) -> Iterator[None]:
    servers.proxy.refuse(reply)
    if reply in {*ENDING, RESET}:
        servers.proxy.drop()
    try:
        yield
    finally:
        servers.proxy.relent()


@contextmanager
def _admin(servers: Dependencies, on: str, off: str) -> Iterator[None]:
    with psycopg.connect(servers.superuser_url, autocommit=True) as connection:
        connection.execute(on.encode())
        try:
            yield
        finally:
            connection.execute(off.encode())


@contextmanager
def _read_only(servers: Dependencies) -> Iterator[None]:
    """Of all sessions, those that exist too."""
    primary, reload = servers.pair.primary, "SELECT pg_reload_conf()"
    ask(primary, "ALTER SYSTEM SET default_transaction_read_only = on")
    ask(primary, reload)
    try:
        yield
    finally:
        with psycopg.connect(primary.admin_url, autocommit=True) as connection:
            connection.execute("SET default_transaction_read_only = off")
            connection.execute("ALTER SYSTEM RESET default_transaction_read_only")
            connection.execute(reload)


@contextmanager
def _recovery(servers: Dependencies) -> Iterator[None]:
    """The address leads to a standby, which serves reads."""
    servers.pair.forwarder.point_to(servers.pair.standby.port)
    try:
        yield
    finally:
        servers.pair.forwarder.point_to(servers.pair.primary.port)


@contextmanager
def _logins_refused(state: str, servers: Dependencies) -> Iterator[None]:
    with (
        anyio.from_thread.start_blocking_portal() as portal,
        portal.wrap_async_context_manager(refusing_server(state)) as url,
    ):
        servers.pair.forwarder.point_to(int(url.rpartition("/")[0].rpartition(":")[2]))
        try:
            yield
        finally:
            servers.pair.forwarder.point_to(servers.pair.primary.port)


@contextmanager
def _no_server(servers: Dependencies) -> Iterator[None]:
    servers.pair.forwarder.point_to(free_port())
    try:
        yield
    finally:
        servers.pair.forwarder.point_to(servers.pair.primary.port)


@contextmanager
def _no_connections_left(servers: Dependencies) -> Iterator[None]:
    limit = f"ALTER DATABASE {DATABASE} CONNECTION LIMIT {{}}"
    with _admin(servers, limit.format(0), limit.format(-1)):
        _terminate(servers)
        yield


@contextmanager
def _terminated(servers: Dependencies) -> Iterator[None]:
    """Each session, again and again."""
    over = threading.Event()

    def work() -> None:
        while not over.wait(_BETWEEN_TERMINATIONS):
            _terminate(servers)

    thread = threading.Thread(target=work)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()


def _terminate(servers: Dependencies) -> None:
    with psycopg.connect(servers.pair.primary.admin_url, autocommit=True) as connection:
        connection.execute(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = %s AND usename <> %s",
            [DATABASE, embedded_postgres.SUPERUSER],
        )


@contextmanager
def _full_disk(name: str, when: str, servers: Dependencies) -> Iterator[None]:
    """No row can be written. The triggers stay, and do nothing afterwards: each would wait for its table's lock."""
    succeed = _WRITE.format(name=name, does="RETURN NULL")
    with psycopg.connect(servers.superuser_url, autocommit=True) as connection:
        connection.execute(succeed.encode())
        for (table,) in connection.execute(_TABLES).fetchall():
            connection.execute(_TRIGGER.format(name=name, table=table, when=when).encode())
    with _admin(servers, _WRITE.format(name=name, does=_FAIL), succeed):
        yield


@contextmanager
def _stopped(servers: Dependencies) -> Iterator[None]:
    """The server's processes stop as with a machine that is frozen: connections stay, and nothing answers."""
    server = postmaster(servers.pair.primary.data_dir)
    processes = [server, *server.children()]
    for process in processes:
        process.send_signal(signal.SIGSTOP)
    try:
        yield
    finally:
        for process in reversed(processes):
            process.send_signal(signal.SIGCONT)


FAULTS: Mapping[str, Fault] = {
    "nothing": _nothing,
    **{f"redis: {reply}": partial(_redis_answers, reply) for reply in (*REPLIES, *sorted(BROKEN))},
    "postgresql: read-only": _read_only,
    "postgresql: in recovery": _recovery,
    "postgresql: 57P03 starting up": partial(_logins_refused, "57P03"),
    "postgresql: 57P02 crash of another process": partial(_logins_refused, "57P02"),
    "postgresql: 53300 too many connections": _no_connections_left,
    "postgresql: 57P01 terminated by administrator": _terminated,
    "postgresql: no server": _no_server,
    "postgresql: silence": _stopped,
    "postgresql: 53100 disk full": partial(_full_disk, "full_disk", "NOT DEFERRABLE"),
    "postgresql: 53100 disk full at the commit": partial(_full_disk, "full_at_commit", "DEFERRABLE INITIALLY DEFERRED"),
}
"""By name. The first is for comparison."""
