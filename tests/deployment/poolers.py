"""PgBouncer before PostgreSQL, in each of its modes."""

from collections.abc import Iterator
from contextlib import contextmanager

from app.local.ports import LOOPBACK, free_port
from tests.deployment import documents
from tests.deployment.database import Check
from tests.deployment.installation import Installation, await_ready, running
from tests.deployment.processes import expect
from tests.deployment.servers import pgbouncer
from tests.e2e.people import ONE_A10G, Operator

PROCESSES = ("api", "worker", "inventory")
IGNORING = "ignore_startup_parameters = extra_float_digits,options,role,statement_timeout,jit\n"


class PoolerTrial:
    """The configuration is that of docs/running.md, with another pool mode where one is tried."""

    def __init__(self, installation: Installation) -> None:
        self._installation = installation
        self._documented = documents.block("running.md", "ini", "pool_mode")

    def checks(self) -> dict[str, Check]:
        return {
            "pool_mode session, as documented: a whole lease": lambda: self._works(""),
            "pool_mode session with ignore_startup_parameters: a whole lease": lambda: self._works(IGNORING),
            "pool_mode transaction: every process refuses to start": lambda: self._refused("transaction", ""),
            "the same with ignore_startup_parameters": lambda: self._refused("transaction", IGNORING),
            "pool_mode statement: every process refuses to start": lambda: self._refused("statement", ""),
        }

    @contextmanager
    def _pooler(self, mode: str, more: str) -> Iterator[str]:
        expect("pool_mode = session\n" in self._documented, "docs/running.md does not say pool_mode = session")
        configuration = self._documented.replace("pool_mode = session\n", f"pool_mode = {mode}\n{more}")
        installation = self._installation
        with pgbouncer(
            installation.folder, installation.postgres, configuration, installation.passwords.of_logins()
        ) as place:
            yield place

    def _works(self, more: str) -> str:
        installation = self._installation
        with self._pooler("session", more) as place:
            port = free_port()
            url = f"http://{LOOPBACK}:{port}"
            name = "ignoring" if more else "plain"
            processes = [
                installation.process(service, f"{service}-{name}", database=place, GPULEASE_PORT=str(port))
                for service in PROCESSES
            ]
            key = installation.operator_key()
            with running(processes):
                await_ready(url, processes)
                with Operator(url, key) as operator:
                    operator.wait_for_offerings("aws")
                    with operator.tenant(f"pooled-{name}", 10) as tenant:
                        lease = tenant.create(ONE_A10G)
                        tenant.wait(lease, "active")
                        tenant.release_all()
        return "queued, active, released"

    def _refused(self, mode: str, more: str) -> str:
        with self._pooler(mode, more) as place:
            for service in PROCESSES:
                said = self._installation.refused(service, database=place)
                expect("pool_mode = session" in said, f"{service} does not say what to set: {said}")
                expect(len(said.strip().splitlines()) == 1, f"{service} says more than a line: {said}")
        return "with the setting to change"
