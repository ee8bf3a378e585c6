"""Starts all programs of a stack in order, and ends them in the reverse order."""

import time
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path

import httpx

from app.local import embedded_postgres, embedded_redis, programs
from app.local.demo import NO_TLS, AccountReport, Credentials, account_reports, ensure_tenant, known_keys
from app.local.embedded_postgres import EmbeddedCluster
from app.local.embedded_redis import EmbeddedRedis
from app.local.environment import cloud_credentials, process_environment, write_accounts
from app.local.home import Home
from app.local.memory import Memory
from app.local.options import Options
from app.local.programs import Program
from app.local.progress import Progress
from app.local.supervision import Supervisor, last_lines, launch
from app.local.system_user import postgres_user
from app.local.waiting import wait_until
from app.prerequisites import ensure_operator_key
from app.settings import AccountSettings, StartupError, load_accounts
from app.settings.providers import providers

READY_SECONDS = 90.0
OFFERINGS_SECONDS = 60.0
FAILING_SECONDS = 8.0
"""A reading of offerings that failed is repeated after five seconds. An account that fails for so long is reported."""


_LONGEST_REFUSAL = 1000
"""Lines: a migration may answer with a script for the database's administrator."""


@dataclass(frozen=True)
class StackPlan:
    """Everything that is decided before the first process starts."""

    home: Home
    options: Options
    cluster: EmbeddedCluster | None
    broker: EmbeddedRedis | None
    ssh_port: int
    environment: Mapping[str, str]
    credentials: Mapping[str, str] = field(repr=False)

    @property
    def database_url(self) -> str:
        """The URL of the program's database."""
        return self.environment["GPULEASE_DATABASE_URL"]

    @property
    def broker_url(self) -> str:
        """The URL of the program's Redis."""
        return self.environment["GPULEASE_BROKER_URL"]


def make_plan(home: Home, options: Options, memory: Memory, outside: Mapping[str, str]) -> StackPlan:
    """Plans a server of the stack's own for PostgreSQL, and for Redis, where the user named none."""
    cluster = None
    if options.database_url is None:
        cluster = EmbeddedCluster(home.postgres, memory.postgres_port, memory.postgres_password)
    broker = None
    if options.broker_url is None:
        broker = EmbeddedRedis(home.redis, memory.redis_port, memory.redis_password)
    environment = process_environment(
        home,
        options,
        database_url=cluster.url() if cluster else str(options.database_url),
        broker_url=broker.url if broker else str(options.broker_url),
        outside=outside,
    )
    credentials = cloud_credentials(options, outside=outside)
    return StackPlan(home, options, cluster, broker, memory.ssh_port, environment, credentials)


class Stack:
    """A running stack. `bring_up` may be interrupted anywhere; `take_down` ends all programs that exist by then."""

    def __init__(self, plan: StackPlan, progress: Progress) -> None:
        self._plan = plan
        self._progress = progress
        self._supervisor: Supervisor | None = None
        self.accounts: list[AccountReport] = []
        self._http = httpx.Client(timeout=5, trust_env=False, verify=NO_TLS)

    def bring_up(self) -> Credentials:
        """Start everything and wait until it answers.

        Raises StartupError with the end of the log of the program that failed.
        """
        plan = self._plan
        self._check_database()
        if plan.options.is_simulated:
            write_accounts(plan.home, plan.options, plan.ssh_port)
        selected = self._programs()
        config = programs.render(plan.home, selected, "root" if postgres_user() else None)
        imports = dict.fromkeys(module for program in selected for module in program.imports)
        private = {program.name: plan.credentials for program in selected if program.calls_clouds}
        supervisor = launch(plan.home, config, plan.environment, imports, private)
        self._supervisor = supervisor
        with self._progress.step("program modules"):
            # at the first start, it takes as long to create a database cluster as supervisord's imports
            self._prepare_servers()
            supervisor.await_calls()
        self._start_servers(supervisor)
        with self._progress.step("database schema"):
            self._migrate(supervisor)
        if plan.options.is_simulated:
            health_url = f"{plan.options.cloudsim_url}/_sim/health"
            with self._progress.step("simulated clouds"):
                self._start(supervisor, programs.CLOUD, lambda: self._answer(health_url) is not None)
        known = known_keys(plan.home.credentials_file)
        operator_key = ensure_operator_key(plan.database_url, known.get("operator_key"))
        with self._progress.step("API and workers"):
            self._start_services(supervisor)
        with self._progress.step("demo tenant"):
            credentials = self._credentials(operator_key, known)
        with self._progress.step("offerings"):
            self._await_offerings(credentials)
        for account in self.accounts:
            if account.is_failing:
                self._progress.say(f"  warning: {account.trouble()}")
        return credentials

    def wait(self) -> None:
        """Returns only when supervisord was killed."""
        if self._supervisor is not None:
            self._supervisor.wait()

    def take_down(self) -> None:
        """End every started program: the services first, PostgreSQL last."""
        supervisor = self._supervisor
        if supervisor is None:
            return
        with ExitStack() as finally_:
            finally_.callback(self._http.close)
            finally_.callback(supervisor.shut_down)
            if supervisor.alive and supervisor.answers():
                with self._progress.step("API and workers end"):
                    supervisor.stop(programs.SERVICES)
                with self._progress.step("the rest ends"):
                    supervisor.stop(programs.SERVERS)
        self._progress.say("  everything has ended")

    def _check_database(self) -> None:
        if self._plan.cluster is None and not embedded_postgres.answers(self._plan.database_url):
            raise StartupError("the database named in GPULEASE_DATABASE_URL does not answer")

    def _prepare_servers(self) -> None:
        plan = self._plan
        if plan.broker is not None:
            embedded_redis.prepare(plan.broker)
        if plan.cluster is not None:
            embedded_postgres.prepare(plan.cluster)

    def _programs(self) -> list[Program]:
        plan, options = self._plan, self._plan.options
        selected: list[Program] = []
        if plan.cluster is not None:
            selected.append(programs.database(plan.cluster))
        if plan.broker is not None:
            selected.append(programs.broker(plan.broker))
        selected.append(programs.migration())
        if options.is_simulated:
            selected.append(
                programs.cloud(plan.home, options.cloudsim_port, plan.ssh_port, options.profile, options.gpu_agents)
            )
        selected += programs.services(
            host=options.host,
            port=options.port,
            api=options.api,
            workers=options.workers,
            inventories=options.inventories,
            adapters=[providers()[account.provider].adapter_module for account in self._accounts().values()],
        )
        return selected

    def _start_servers(self, supervisor: Supervisor) -> None:
        cluster, broker = self._plan.cluster, self._plan.broker
        if cluster is not None:
            with self._progress.step("PostgreSQL"):
                self._start(supervisor, programs.DATABASE, lambda: embedded_postgres.answers(cluster.admin_url))
                embedded_postgres.ensure_database(cluster)
        if broker is not None:
            with self._progress.step("Redis"):
                self._start(supervisor, programs.BROKER, lambda: embedded_redis.answers(broker.url))

    def _start_services(self, supervisor: Supervisor) -> None:
        for group in programs.SERVICES:
            supervisor.start(group)
        ready_url = f"{self._plan.options.api_url}/readyz"
        self._await(supervisor, programs.SERVICES, lambda: self._services_ready(ready_url))

    def _services_ready(self, url: str) -> bool:
        """The API answers, and a worker and an inventory have reported to it."""
        answer = self._answer(url)
        return answer is not None and set(answer.json()["checks"].values()) == {"ok"}

    def _answer(self, url: str) -> httpx.Response | None:
        try:
            answer = self._http.get(url)
        except httpx.HTTPError:
            return None
        return answer if answer.status_code == httpx.codes.OK else None

    def _start(self, supervisor: Supervisor, group: str, ready: Callable[[], bool]) -> None:
        supervisor.start(group)
        self._await(supervisor, (group,), ready)

    def _await(self, supervisor: Supervisor, groups: tuple[str, ...], ready: Callable[[], bool]) -> None:
        def settled() -> bool:
            return ready() or not supervisor.alive or any(supervisor.broken(group) for group in groups)

        wait_until(settled, timeout=READY_SECONDS, poll=0.1)
        for group in groups:
            broken = supervisor.broken(group)
            if broken is not None:
                raise StartupError(f"{broken.name} ended at its start ({broken.log}):\n{last_lines(broken.log)}")
        if not ready():
            raise StartupError(
                f"{', '.join(groups)}: not ready after {READY_SECONDS:.0f} s, see {self._plan.home.logs}"
            )

    def _await_offerings(self, credentials: Credentials) -> None:
        """Waits until each account has offerings for a first lease, or has failed for FAILING_SECONDS.

        An account of the user's own may have no offerings: that is no error.
        """
        configured = self._accounts().keys()
        failing_since: dict[str, float] = {}

        def settled() -> bool:
            self.accounts = [report for report in account_reports(credentials) if report.name in configured]
            now = time.monotonic()
            failing = {report.name for report in self.accounts if report.is_failing}
            for name in failing_since.keys() - failing:
                del failing_since[name]
            for name in failing:
                failing_since.setdefault(name, now)
            return len(self.accounts) == len(configured) and all(
                report.has_offerings or now - failing_since.get(report.name, now) >= FAILING_SECONDS
                for report in self.accounts
            )

        wait_until(settled, timeout=OFFERINGS_SECONDS, poll=0.1)

    def _accounts(self) -> Mapping[str, AccountSettings]:
        return load_accounts(Path(self._plan.environment["GPULEASE_CONFIG"]))

    def _migrate(self, supervisor: Supervisor) -> None:
        (self._plan.home.logs / f"{programs.MIGRATION}.log").unlink(missing_ok=True)
        process = supervisor.run(programs.MIGRATION)
        if process.exit_code:
            message = last_lines(process.log, _LONGEST_REFUSAL).strip()
            raise StartupError(f"the database schema could not be brought up to date:\n{message}")

    def _credentials(self, operator_key: str, known: Mapping[str, str]) -> Credentials:
        plan = self._plan
        tenant = ensure_tenant(plan.options.api_url, operator_key, known.get("tenant_key"))
        credentials = Credentials(
            api_url=plan.options.api_url,
            cloudsim_url=plan.options.cloudsim_url if plan.options.is_simulated else None,
            database_url=plan.database_url,
            broker_url=plan.broker_url,
            operator_key=operator_key,
            tenant_id=tenant.tenant_id,
            tenant_key=tenant.key,
        )
        credentials.write(plan.home.credentials_file)
        return credentials
