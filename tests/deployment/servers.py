"""Debian's servers, each as a cluster or instance of its own in the trial's folder, as the user that Debian made for it."""

import os
import secrets
import shutil
import signal
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import quote

import psycopg
import redis

from app.local.ports import LOOPBACK, free_port
from tests.deployment.needs import program
from tests.deployment.processes import Process, as_user, await_, clean_environment, run
from tests.harness.databases import ROOT

DATABASE = "gpulease"
OWNER = "gpulease_owner"
API_LOGIN = "gpulease_api_login"
WORKER_LOGIN = "gpulease_worker_login"
ADMINISTRATOR = "administrator"
"""As on managed PostgreSQL: no superuser, but may make roles and databases."""

_START_SECONDS = 30.0
_HARD = "@/:#"
"""Characters that end a part of a URL: every password of a trial has them."""


def new_password() -> str:
    return f"{secrets.token_hex(8)}{_HARD}"


def folder_for(parent: Path, name: str, user: str) -> Path:
    folder = parent / name
    folder.mkdir(mode=0o700)
    shutil.chown(folder, user, user)
    return folder


@dataclass(frozen=True)
class Postgres:
    """A running cluster of PostgreSQL 15. `superuser` and `administrator` are passwords."""

    host: str
    port: int
    superuser: str = field(default_factory=new_password, repr=False)
    administrator: str = field(default_factory=new_password, repr=False)

    def url(self, user: str, password: str | None = None, database: str = DATABASE) -> str:
        secret = f":{quote(password, safe='')}" if password is not None else ""
        return f"postgresql://{user}{secret}@{self.host}:{self.port}/{database}"

    @property
    def superuser_url(self) -> str:
        """For what the trial itself looks at; no process of ours gets it."""
        return self.url("postgres", self.superuser)

    @property
    def administrator_url(self) -> str:
        return self.url(ADMINISTRATOR, self.administrator, "postgres")

    def psql(self, url: str, script: str, **environment: str) -> str:
        """Debian's psql. Raises TrialError with what it said."""
        command = [program("psql"), "--no-psqlrc", "--quiet", "--tuples-only", "--no-align", url]
        return run("psql", command, {**clean_environment(), **environment}, standard_input=script).strip()

    def make_owner(self, password: str) -> None:
        """What docs/running.md lets an administrator do."""
        script = (ROOT / "migrations" / "owner.sql").read_text(encoding="utf-8")
        self.psql(self.administrator_url, script, OWNER_PASSWORD=password)


@contextmanager
def postgres(folder: Path, host: str = LOOPBACK) -> Iterator[Postgres]:
    """A new cluster that listens at `host` and at loopback."""
    server = Postgres(host, free_port())
    user = "postgres"
    data = folder_for(folder, "postgres", user)
    secret = folder / "postgres.password"
    secret.write_text(server.superuser, encoding="utf-8")
    shutil.chown(secret, user, user)
    quiet = clean_environment()
    initdb = [program("initdb"), f"--pgdata={data}", f"--username={user}", f"--pwfile={secret}", "--encoding=UTF8"]
    run("initdb", [*as_user(user), *initdb, "--auth=scram-sha-256", "--locale=C.UTF-8"], quiet)
    secret.unlink()
    with (data / "pg_hba.conf").open("a", encoding="utf-8") as access:
        access.write("host all all 10.0.0.0/8 scram-sha-256\n")
    settings = {
        "port": server.port,
        "listen_addresses": ",".join({LOOPBACK, host}),
        "unix_socket_directories": "",
        "max_connections": 300,
    }
    options = [word for name, value in settings.items() for word in ("-c", f"{name}={value}")]
    process = Process(
        "postgres-server", [*as_user(user), program("postgres"), "-D", str(data), *options], quiet, folder
    )
    process.start()
    try:
        await_("PostgreSQL answers", lambda: _postgres_answers(server), _START_SECONDS)
        with psycopg.connect(server.url("postgres", server.superuser, "postgres"), autocommit=True) as connection:
            hashed = connection.pgconn.encrypt_password(server.administrator.encode(), ADMINISTRATOR.encode()).decode()
            connection.execute(f"CREATE ROLE {ADMINISTRATOR} LOGIN CREATEROLE CREATEDB PASSWORD '{hashed}'".encode())
        yield server
    finally:
        process.send(signal.SIGINT)
        process.end()


def _postgres_answers(server: Postgres) -> bool:
    try:
        with psycopg.connect(server.url("postgres", server.superuser, "postgres"), connect_timeout=2):
            return True
    except psycopg.OperationalError:
        return False


@contextmanager
def redis_server(folder: Path, host: str = LOOPBACK) -> Iterator[str]:
    """The URL of Debian's Redis without persistence, as in the compose file."""
    port, user = free_port(), "redis"
    data = folder_for(folder, "redis", user)
    options = [
        f"--port {port}",
        f"--bind {host}",
        "--protected-mode no",
        '--save ""',
        "--appendonly no",
        f"--dir {data}",
    ]
    words = [word for option in options for word in option.replace('""', "").split(" ")]
    process = Process("redis-server", [*as_user(user), program("redis-server"), *words], clean_environment(), folder)
    process.start()
    url = f"redis://{host}:{port}/0"
    try:
        await_("Redis answers", lambda: _redis_answers(url), _START_SECONDS)
        yield url
    finally:
        process.end()


def _redis_answers(url: str) -> bool:
    try:
        with redis.Redis.from_url(url, socket_timeout=2) as client:
            return bool(client.ping())
    except redis.RedisError:
        return False


@contextmanager
def pgbouncer(folder: Path, server: Postgres, configuration: str, passwords: Mapping[str, str]) -> Iterator[str]:
    """host:port of PgBouncer with this configuration, to which the trial adds only where it listens and who may enter."""
    port, user = free_port(), "postgres"
    home = folder_for(folder, f"pgbouncer-{port}", user)
    users = home / "users"
    users.write_text("".join(f'"{name}" "{password}"\n' for name, password in passwords.items()), encoding="utf-8")
    settings = home / "pgbouncer.ini"
    places = {"host=db port=5432": f"host={server.host} port={server.port}"}
    for placeholder, place in places.items():
        configuration = configuration.replace(placeholder, place)
    here = f"listen_addr = {LOOPBACK}\nlisten_port = {port}\nauth_type = scram-sha-256\nauth_file = {users}\nunix_socket_dir =\n"
    settings.write_text(configuration.replace("[pgbouncer]\n", f"[pgbouncer]\n{here}"), encoding="utf-8")
    for file in (users, settings):
        shutil.chown(file, user, user)
        file.chmod(0o600)
    process = Process(
        f"pgbouncer-{port}", [*as_user(user), program("pgbouncer"), str(settings)], clean_environment(), folder
    )
    process.start()
    name, password = next(iter(passwords.items()))
    try:
        await_(
            f"PgBouncer answers\n{process.last_lines()}",
            lambda: _accepts(LOOPBACK, port, name, password),
            _START_SECONDS,
        )
        yield f"{LOOPBACK}:{port}"
    finally:
        process.end()


def _accepts(host: str, port: int, user: str, password: str) -> bool:
    try:
        connection = psycopg.connect(
            host=host, port=port, user=user, password=password, dbname=DATABASE, autocommit=True, connect_timeout=2
        )
    except psycopg.OperationalError:
        return False
    connection.close()
    return True


@contextmanager
def haproxy(folder: Path, name: str, configuration: str, before: Sequence[str] = ()) -> Iterator[Process]:
    """HAProxy with this configuration, in the foreground, on the host that `before` chooses."""
    user = "haproxy"
    home = folder_for(folder, f"{name}-home", user)
    file = home / "haproxy.cfg"
    file.write_text(configuration, encoding="utf-8")
    shutil.chown(file, user, user)
    command = [*before, *as_user(user), program("haproxy"), "-db", "-f", str(file)]
    process = Process(name, command, clean_environment(), folder)
    process.start()
    try:
        yield process
    finally:
        process.end()


def open_folder(path: Path) -> None:
    """Others may pass through it to their own."""
    os.chmod(path, 0o711)  # noqa: S103, PTH101 - each server's own folder inside is closed
