"""API, worker and inventory as processes of their own over three simulated clouds, with secrets that can be recognised."""

import base64
import os
import re
import secrets
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import psycopg
import redis
from psycopg.rows import dict_row

from app.local.environment import ACCOUNTS, SUBNETS
from app.local.ports import LOOPBACK, free_port
from app.local.profiles import FAST
from app.local.waiting import wait_until
from app.prerequisites import ensure_operator_key
from app.settings.timing import layered, timing
from cloudsim.testing import NO_TLS, Control
from tests.harness.databases import ROOT
from tests.workers.providers.gcp.accounts import EMAIL, key_file, private_key

PATIENCE = 120.0
INTERVALS = {
    **timing(
        inventory_interval=3,
        inventory_first_interval=2,
        watch_interval=1,
        sweep_interval=1,
        call_timeout=15,
        connect_timeout=5,
        claim_seconds=40,
        offerings_interval=20,
        launch_timeout=120,
        boot_timeout=120,
        proof_seconds=3,
    ),
    "GPULEASE_WORKER_THREADS": "4",
    "GPULEASE_API_POOL_SIZE": "2",
    # no VM has an agent: its console is read three times within this
}
PUBLIC_URL = "https://gpu.example.org"


@dataclass(frozen=True)
class Places:
    """Where the stack keeps what it knows."""

    url: str
    database_url: str
    broker_url: str
    folder: Path

    def database(self) -> dict[str, str]:
        """Every table as text."""
        found = {}
        with psycopg.Connection[dict[str, Any]].connect(
            self.database_url, autocommit=True, row_factory=dict_row
        ) as connection:
            connection.execute("SET ROLE gpulease_worker")
            tables = connection.execute(
                "SELECT table_name FROM information_schema.table_privileges WHERE table_schema = 'public' "
                "AND grantee = 'gpulease_worker' AND privilege_type = 'SELECT'"
            ).fetchall()
            for table in sorted(row["table_name"] for row in tables):
                rows = connection.execute(f"SELECT t::text AS row FROM {table} t".encode()).fetchall()
                found[table] = "\n".join(row["row"] for row in rows)
        return found

    def read(self, statement: str) -> list[dict[str, Any]]:
        """Rows as a worker sees them."""
        with psycopg.Connection[dict[str, Any]].connect(
            self.database_url, autocommit=True, row_factory=dict_row
        ) as connection:
            connection.execute("SET ROLE gpulease_worker")
            return connection.execute(statement.encode()).fetchall()

    def broker(self) -> str:
        """Every key of Redis with what it holds."""
        with redis.Redis.from_url(self.broker_url, decode_responses=True) as client:
            read: dict[str, Any] = {
                "string": client.get,
                "hash": client.hgetall,
                "set": client.smembers,
                "list": lambda key: client.lrange(key, 0, -1),
                "zset": lambda key: client.zrange(key, 0, -1),
            }
            return "\n".join(f"{key} {read[str(client.type(key))](key)}" for key in client.scan_iter())

    def logs(self) -> str:
        """All that the processes have said."""
        return "".join(path.read_text(encoding="utf-8") for path in sorted(self.folder.glob("*.log")))


@dataclass(frozen=True)
class Canaries:
    """Secrets by name, each nowhere else in the world."""

    known: dict[str, str]

    def seen_in(self, text: str) -> list[str]:
        """Names of those that stand in `text`, as they are or in base64."""
        return [name for name, secret in self.known.items() if any(form in text for form in _forms(secret))]


def _forms(secret: str) -> list[str]:
    """Base64 of the secret at each of the three places where it may begin, without the ends that depend on neighbours."""
    encoded = [base64.b64encode(b"\0" * n + secret.encode()).decode() for n in range(3)]
    return [secret, *(text[4:-4] for text in encoded)]


def fresh(word: str) -> str:
    return f"CANARY{word}{secrets.token_hex(16)}"


def provider_credentials() -> dict[str, str]:
    """Of AWS and Azure by environment variable; Google's comes in a file."""
    return {"AWS_SECRET_ACCESS_KEY": fresh("aws"), "AZURE_CLIENT_SECRET": fresh("azure")}


def private_line() -> str:
    """A line in the middle of the private key at Google."""
    return private_key().splitlines()[3]


@contextmanager
def stack(sim: Control, folder: Path, database_url: str, broker_url: str, given: dict[str, str]) -> Iterator[Places]:
    """All three processes, until the block ends."""
    accounts = folder / "gpulease.toml"
    places = {
        "url": sim.url,
        "subnets": SUBNETS,
        "ssh_port": 22,
        "gcp_key_file": f'"{key_file(folder, sim.url, EMAIL)}"',
    }
    described = "".join(text.format(**places) for text in ACCOUNTS.values())
    accounts.write_text(re.sub(r'(regions = \["[^"]+"), "[^"]+"', r"\1", described))
    port = free_port()
    environment = {
        **{name: value for name, value in os.environ.items() if not name.startswith(("AWS_", "AZURE_", "GOOGLE_"))},
        **layered(FAST, INTERVALS, given),
        "AWS_ACCESS_KEY_ID": "AKIASIMULATED0000001",
        "AWS_EC2_METADATA_DISABLED": "true",
        "AWS_CONFIG_FILE": "/dev/null",
        "AWS_SHARED_CREDENTIALS_FILE": "/dev/null",
        "GPULEASE_DATABASE_URL": database_url,
        "GPULEASE_BROKER_URL": broker_url,
        "GPULEASE_CONFIG": str(accounts),
        "GPULEASE_PUBLIC_URL": PUBLIC_URL,
        "GPULEASE_PORT": str(port),
        "GPULEASE_LOG_LEVEL": "DEBUG",
    }
    with ExitStack() as processes:
        for module, process in (("app.server", "api"), ("workers", "worker"), ("workers", "inventory")):
            processes.enter_context(_process(module, process, folder / f"{process}.log", environment))
        found = Places(f"http://{LOOPBACK}:{port}", database_url, broker_url, folder)
        assert wait_until(lambda: _is_ready(found.url), timeout=PATIENCE), found.logs()
        yield found


@contextmanager
def _process(module: str, process: str, log: Path, environment: dict[str, str]) -> Iterator[None]:
    argv = [sys.executable, "-m", module, process]
    with log.open("wb") as output:
        child = subprocess.Popen(argv, cwd=ROOT, env=environment, stdout=output, stderr=output)
    try:
        yield
    finally:
        child.terminate()
        child.wait(PATIENCE)


def _is_ready(url: str) -> bool:
    try:
        answer = httpx.get(f"{url}/readyz", timeout=5, trust_env=False, verify=NO_TLS)
    except httpx.TransportError:
        return False
    return answer.status_code == httpx.codes.OK and {
        answer.json()["checks"][one] for one in ("worker", "inventory")
    } == {"ok"}


def operator_key(database_url: str) -> str:
    return ensure_operator_key(database_url, None)
