"""PostgreSQL and Redis of their own for one measurement, in a folder that is removed afterwards."""

import os
import secrets
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from app.local import embedded_postgres, embedded_redis
from app.local.embedded_postgres import EmbeddedCluster
from app.local.embedded_redis import EmbeddedRedis
from app.local.ports import free_port
from bench import ending

ROOT = Path(__file__).resolve().parents[1]


@dataclass(frozen=True)
class Servers:
    """Both servers, run as the local stack runs them: commits reach the disk. The schema is there."""

    folder: Path
    database_url: str = field(repr=False)
    superuser_url: str = field(repr=False)
    broker_url: str = field(repr=False)

    def environment(self, **settings: str) -> dict[str, str]:
        """What a process of the service is started with; `settings` are GPULEASE_* without the prefix."""
        own = {
            "DATABASE_URL": self.database_url,
            "BROKER_URL": self.broker_url,
            "LOG_LEVEL": "INFO",
            **{name.upper(): value for name, value in settings.items()},
        }
        return {**os.environ, **{f"GPULEASE_{name}": value for name, value in own.items()}}


@contextmanager
def running() -> Iterator[Servers]:
    """Start both, bring the schema up to date, and end both on leaving."""
    ending.on_request()
    with ExitStack() as stack:
        # PostgreSQL may run as another user, which must be able to reach its data
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="gpulease-bench-")))
        folder.chmod(0o711)
        cluster = EmbeddedCluster(folder / "postgres", free_port(), secrets.token_hex(16))
        stack.enter_context(embedded_postgres.running(cluster))
        broker = stack.enter_context(
            embedded_redis.running(EmbeddedRedis(folder / "redis", free_port(), secrets.token_hex(16)))
        )
        servers = Servers(folder, cluster.url(), cluster.url(user=embedded_postgres.SUPERUSER), broker.url)
        _migrate(servers)
        yield servers


def _migrate(servers: Servers) -> None:
    argv = [sys.executable, "-m", "app.server", "migrate"]
    done = subprocess.run(argv, env=servers.environment(), cwd=ROOT, capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(f"the migrations failed:\n{done.stderr}")
