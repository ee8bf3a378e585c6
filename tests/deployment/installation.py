"""gpulease's own processes, with the environment that the compose file gives them."""

import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import httpx

from app.local.environment import ACCOUNTS, SIMULATED_AWS, SIMULATED_AZURE, SUBNETS
from app.local.ports import LOOPBACK, free_port
from app.settings.timing import layered, timing
from cloudsim.testing import NO_TLS
from tests.deployment import documents
from tests.deployment.processes import Process, await_, clean_environment, expect, finish, run
from tests.deployment.servers import API_LOGIN, OWNER, WORKER_LOGIN, Postgres, new_password
from tests.workers.providers.gcp.accounts import EMAIL, key_file

HASTE: Mapping[str, str] = {
    **timing(inventory_interval=10, inventory_first_interval=3, watch_interval=2),
    "GPULEASE_PROVIDER_RATE_LIMITS": "false",
}
"""The only settings that are not the defaults: the simulated clouds are fast and have no rate limits."""

START_SECONDS = 90.0


def module(name: str, *arguments: str) -> list[str]:
    return [sys.executable, "-m", name, *arguments]


@dataclass(frozen=True)
class Passwords:
    """What .env holds beside the superuser's password."""

    owner: str = field(default_factory=new_password, repr=False)
    api: str = field(default_factory=new_password, repr=False)
    worker: str = field(default_factory=new_password, repr=False)

    def variables(self) -> dict[str, str]:
        return {"OWNER_PASSWORD": self.owner, "API_PASSWORD": self.api, "WORKER_PASSWORD": self.worker}

    def of_logins(self) -> dict[str, str]:
        return {API_LOGIN: self.api, WORKER_LOGIN: self.worker, OWNER: self.owner}


@dataclass(frozen=True, kw_only=True)
class Installation:
    """One database, one Redis, the simulated clouds. `passwords` are those of the logins that `migrate` makes."""

    folder: Path
    postgres: Postgres
    broker_url: str
    cloud_url: str
    passwords: Passwords

    def environment(self, service: str, *, database: str | None = None, **settings: str) -> dict[str, str]:
        """As the compose file has it. `database` is host:port, where it is not PostgreSQL itself."""
        places = {
            "postgres:5432": database or f"{self.postgres.host}:{self.postgres.port}",
            "redis://redis:6379/0": self.broker_url,
            "/etc/gpulease/gpulease.toml": str(self._accounts_file()),
        }
        given = documents.service_environment(service, self.passwords.variables(), places)
        credentials = {**SIMULATED_AWS, **SIMULATED_AZURE} if service in {"worker", "inventory"} else {}
        return layered(clean_environment(), given, HASTE, credentials, settings)

    def migrate(self, **settings: str) -> str:
        """What it prints. Raises TrialError when it fails."""
        return run("migrate", module("app.server", "migrate"), self.environment("migrate", **settings))

    def refused(self, service: str, *, database: str | None = None, **settings: str) -> str:
        """What a process says that must not start. Raises TrialError when it does."""
        environment = self.environment(service, database=database, GPULEASE_PORT=str(free_port()), **settings)
        done = finish(module("app.server", service), environment, seconds=60)
        expect(
            done.returncode == 2, f"{service} ended with {done.returncode}: {done.stdout[-500:]}{done.stderr[-500:]}"
        )
        return done.stderr

    def operator_key(self) -> str:
        return run("operator-key", module("app.server", "operator-key"), self.environment("api")).strip()

    def process(
        self,
        service: str,
        name: str | None = None,
        *,
        before: Sequence[str] = (),
        database: str | None = None,
        **settings: str,
    ) -> Process:
        """One that is not started yet; `before` goes before its command."""
        environment = self.environment(service, database=database, **settings)
        return Process(name or service, [*before, *module("app.server", service)], environment, self.folder)

    def _accounts_file(self) -> Path:
        file = self.folder / "gpulease.toml"
        if not file.exists():
            places = {
                "url": self.cloud_url,
                "subnets": SUBNETS,
                "gcp_key_file": f'"{key_file(self.folder, self.cloud_url, EMAIL)}"',
            }
            file.write_text("".join(text.format(**places) for text in ACCOUNTS.values()), encoding="utf-8")
        return file


@contextmanager
def clouds(folder: Path, port: int | None = None, before: Sequence[str] = ()) -> Iterator[str]:
    """The simulated clouds' URL, on loopback of the host that `before` chooses."""
    port = port or free_port()
    command = [*before, *module("cloudsim", "--port", str(port), "--profile", "fast")]
    process = Process("cloudsim", command, clean_environment(), folder)
    process.start()
    try:
        yield f"http://{LOOPBACK}:{port}"
    finally:
        process.end()


@contextmanager
def running(processes: Sequence[Process]) -> Iterator[None]:
    """Until the block ends, however it ends."""
    try:
        for process in processes:
            process.start()
        yield
    finally:
        for process in processes:
            process.end()


def readiness(url: str) -> dict[str, str]:
    """The checks of an API process; empty when it does not answer."""
    try:
        answer = httpx.get(f"{url}/readyz", timeout=5, trust_env=False, verify=NO_TLS)
        checks: dict[str, str] = answer.json()["checks"]
    except (httpx.HTTPError, ValueError, KeyError):
        return {}
    return checks


def await_ready(url: str, processes: Sequence[Process], seconds: float = START_SECONDS) -> None:
    """Until the API behind `url` answers and has heard of a worker and an inventory."""

    def ready() -> bool:
        for process in processes:
            expect(process.alive, f"{process.name} ended:\n{process.last_lines()}")
        checks = readiness(url)
        return bool(checks) and set(checks.values()) == {"ok"}

    await_(f"{url}/readyz", ready, seconds, poll=0.2)
