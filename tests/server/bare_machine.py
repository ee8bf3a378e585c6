"""A bare machine and a person who types what a page says: its blocks, its commands, and the acts that it asks for."""

import os
import re
import signal
import subprocess
import sys
import threading
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from urllib.parse import quote, urlsplit, urlunsplit

import httpx
import psycopg

from app.local import embedded_postgres
from app.local.embedded_postgres import FORGETFUL, SETTINGS, EmbeddedCluster
from app.local.environment import ACCOUNTS, SIMULATED_AWS
from app.local.ports import LOOPBACK, free_port
from app.local.waiting import wait_until
from app.settings.timing import timing
from cloudsim.testing import NO_TLS
from tests.harness.databases import ROOT

PATIENCE = 60.0
PASSWORD = "p@ss/word: 1"
"""Of each login. Passwords may have any characters."""
ACTS: Mapping[str, str] = {
    "under any process manager": "start",
    "In a new cluster": "new_cluster",
    "Stop `api`, `worker` and `inventory` everywhere": "stop",
    "Start the processes": "start",
    "Replace `api`, `worker` and `inventory` one by one": "replace",
    "processes that use the second login": "use_second_logins",
    "processes that use the first login": "use_first_logins",
}
"""What a person does without a command, by the words of the page."""
_ITEM = re.compile(
    r"^ *```(?P<language>\w*)\n(?P<block>.*?)^ *```$|`(?P<command>gpulease(?:-server)? [^`]+)`|`(?P<statement>DROP ROLE [^`]+;)`"
    rf"|(?P<act>{'|'.join(map(re.escape, ACTS))})",
    re.MULTILINE | re.DOTALL,
)
_UNIT = re.compile(r"^ExecStart=/opt/gpulease/bin/(.*) \w+$", re.MULTILINE)
_PROGRAMS = ("api", "worker", "inventory")
_BETWEEN_READS = 0.02
_LOGINS = {"api": "gpulease_api_login", "worker": "gpulease_worker_login"}
_QUICK = timing(inventory_interval=4, inventory_first_interval=1, watch_interval=1, sweep_interval=0.5)
"""The only settings that no page names: intervals, so that nobody waits for a listing."""


class Machine:
    """A home with gpulease and PostgreSQL's programs, and a process manager. `folder` stands for /etc/gpulease too."""

    def __init__(self, folder: Path, broker_url: str, cloud_url: str, stack: ExitStack) -> None:
        self.folder = folder
        self._stack = stack
        self._broker_url = broker_url
        self._ports = {"api": free_port(), "api-b": free_port()}
        self.api_url, self._other_url = (f"http://{LOOPBACK}:{port}" for port in self._ports.values())
        self._logins = dict(_LOGINS)
        self._password = PASSWORD
        self._owner_password = PASSWORD
        self._cloud: Mapping[str, str] = SIMULATED_AWS
        self._programs: tuple[str, ...] = _PROGRAMS
        self._processes: dict[str, subprocess.Popen[bytes]] = {}
        self._later: list[str] = []
        self._said: dict[str, str] = {}
        self._clusters = 0
        self._key = ""
        self._unit = _UNIT.findall((ROOT / "docs" / "howto" / "deploy.md").read_text(encoding="utf-8"))[0]
        (folder / "gpulease.toml").write_text(ACCOUNTS["aws"].format(url=cloud_url, ssh_port=22))
        self.new_cluster()
        stack.callback(self.stop)

    # --- reading ------------------------------------------------------------------------------------------------

    def follow(self, page: str, begin: str = "", end: str = "\0") -> list[str]:
        """Types everything of a page from its beginning to its end, or between these words. Returns the commands."""
        text = (ROOT / "docs" / page).read_text(encoding="utf-8").partition(begin)[2] if begin else ""
        text = text or (ROOT / "docs" / page).read_text(encoding="utf-8")
        return [typed for item in _ITEM.finditer(text.partition(end)[0]) for typed in self._do(item)]

    def _do(self, item: re.Match[str]) -> Iterator[str]:
        if item["act"]:
            getattr(self, ACTS[item["act"]])()
        elif item["language"] == "sql" or item["statement"]:
            statements = item["statement"] or item["block"]
            self.psql(statements)
            yield statements.strip()
        elif item["language"] == "sh" or item["command"]:
            command = item["command"] or item["block"]
            self._said[command] = self.type(command)
            yield command

    # --- typing -------------------------------------------------------------------------------------------------

    def type(self, command: str) -> str:
        """What a command writes to standard output. The dead-man switch waits for the key of its heartbeat."""
        if command.startswith("gpulease-server deadman "):
            self._later.append(command)
            return ""
        done = self._run(self._placed(command), self._environment(command))
        assert done.returncode == 0, f"{command}\n{done.stdout}{done.stderr}"
        if command == "gpulease-server operator-key":
            self._key = done.stdout.strip()
        if command == "gpulease-server deadman-key":
            self._watch_for_the_dead(done.stdout.strip())
        return done.stdout

    def psql(self, statements: str) -> None:
        """As the administrator of the server, in gpulease's database where there is one. Second logins are the owner's."""
        text = statements.replace("'…'", "'{}'".format(PASSWORD.replace("'", "''")))
        url = self._cluster.admin_url if "CREATE DATABASE" in text else self._cluster.url(user="postgres")
        if "login_2" in text:
            url = self._url("gpulease_owner", self._owner_password)
        with psycopg.connect(url, autocommit=True) as administrator:
            for statement in filter(str.strip, text.split(";\n")):
                administrator.execute(statement.encode())

    def said(self, command: str) -> str:
        """What a command of a page wrote."""
        return self._said[command]

    def create_lease(self) -> str:
        """An active lease of a new tenant."""
        with self._api() as api:
            tenant_id = api.post("/v1/tenants", json={"name": "alice"}).json()["id"]
            limits = [{"resource": "gpus", "limit": 8}]
            api.put(f"/v1/tenants/{tenant_id}/quotas", json={"limits": limits}).raise_for_status()
            request = {"gpu": {"model": "A10G"}, "ttl_seconds": 3600, "proof": "off", "tenant_id": tenant_id}
            made = api.post("/v1/leases", json=request)
            assert made.status_code == httpx.codes.CREATED, made.text
        lease_id = str(made.json()["id"])
        assert wait_until(lambda: self.state_of(lease_id) == "active", timeout=PATIENCE, poll=0.2), self._logs()
        return lease_id

    def state_of(self, lease_id: str) -> str:
        """The state of a lease, by the API."""
        with self._api() as api:
            return str(api.get(f"/v1/leases/{lease_id}").json()["state"])

    def _api(self) -> httpx.Client:
        headers = {"Authorization": f"Bearer {self._key}"}
        return httpx.Client(base_url=self.api_url, headers=headers, trust_env=False, verify=NO_TLS, timeout=30)

    def key_id(self) -> str:
        """Of the operator's key."""
        with self._api() as api:
            return str(api.get("/v1/me").json()["key_id"])

    def summary(self) -> str:
        """What `gpulease ops summary` shows."""
        return self.type("gpulease ops summary")

    def await_calm(self) -> None:
        """Until `gpulease ops summary` shows no brake: after a start, each region must be listed first."""
        assert wait_until(lambda: "No brakes active" in self.summary(), timeout=PATIENCE, poll=0.5), self.summary()

    def _placed(self, command: str) -> str:
        places = {
            "/etc/gpulease/": f"{self.folder}/",
            "https://gpu.example.org": self.api_url,
            "http://127.0.0.1:8000": self.api_url,
            "gpl-0123456789ab": self._installation() if "gpl-0123456789ab" in command else "",
        }
        for written, real in places.items():
            command = command.replace(written, real)
        assert "…" not in command, f"nobody can type this: {command}"
        return command

    def _installation(self) -> str:
        with psycopg.connect(self._cluster.url(user="postgres")) as administrator:
            row = administrator.execute("SELECT id FROM installation").fetchone()
        assert row is not None
        return str(row[0])

    def _run(self, command: str, environment: Mapping[str, str]) -> subprocess.CompletedProcess[str]:
        argv = ["/bin/sh", "-eu", "-c", command]
        return subprocess.run(argv, cwd=self.folder, env=dict(environment), capture_output=True, text=True, check=False)

    @contextmanager
    def reading(self) -> Iterator[Counter[str]]:
        """Somebody reads fifty times a second at most, through a load balancer that sends what reached no API to the other one."""
        self._programs = ("api", "api-b", *_PROGRAMS[1:])
        self._start("api-b", f"{self._unit} api", self._environment("api-b"))
        assert wait_until(self._is_well, timeout=PATIENCE, poll=0.2), self._logs()
        answers: Counter[str] = Counter()
        stop = threading.Event()

        def read() -> None:
            with httpx.Client(trust_env=False, verify=NO_TLS, timeout=30) as client:
                while not stop.wait(_BETWEEN_READS):
                    answers[self._balanced(client)] += 1

        reader = threading.Thread(target=read)
        reader.start()
        try:
            yield answers
        finally:
            stop.set()
            reader.join()
            self._programs = _PROGRAMS
            self._stop("api-b")

    def _balanced(self, client: httpx.Client) -> str:
        headers = {"Authorization": f"Bearer {self._key}"}
        for url in (self.api_url, self._other_url):
            try:
                return str(client.get(f"{url}/v1/tenants", headers=headers).status_code)
            except httpx.TransportError:
                continue
        return "no API"

    # --- processes ----------------------------------------------------------------------------------------------

    def start(self) -> None:
        """Starts an `api`, a `worker` and an `inventory` process, and waits until all is well."""
        for program in self._programs:
            self._start(program, f"{self._unit} {program.removesuffix('-b')}", self._environment(program))
        assert wait_until(self._is_well, timeout=PATIENCE, poll=0.2), self._logs()

    def stop(self) -> None:
        """Stops them, as a process manager does."""
        for name in list(self._processes):
            self._stop(name)

    def replace(self) -> None:
        """One by one, and the others go on: the next `api` stops when the one before it is ready."""
        for program in self._programs:
            self._stop(program)
            self._start(program, f"{self._unit} {program.removesuffix('-b')}", self._environment(program))
            if program in self._ports:
                assert wait_until(self._is_well, timeout=PATIENCE, poll=0.2), self._logs()
        assert wait_until(self._is_well, timeout=PATIENCE, poll=0.2), self._logs()

    def use_second_logins(self) -> None:
        """Afterwards the first logins get a new password."""
        self._logins = {program: f"{name}_2" for program, name in _LOGINS.items()}
        self.replace()
        self._password = f"another {PASSWORD}"

    def use_first_logins(self) -> None:
        """With their new password."""
        self._logins = dict(_LOGINS)
        self.replace()

    def change_owner_password(self, statement: str) -> None:
        """As the owner. From then on this is the password of `migrate`."""
        self._owner_password = f"another {PASSWORD}"
        with psycopg.connect(self._url("gpulease_owner", PASSWORD), autocommit=True) as owner:
            owner.execute(statement.replace("…", self._owner_password).encode())

    def use_broker(self, url: str) -> None:
        """Puts the URL into each process's file, and replaces the processes."""
        self._broker_url = url
        self.replace()

    def use_credentials(self, credentials: Mapping[str, str]) -> None:
        """Puts credentials of the cloud into the files, checks them and replaces the processes."""
        self._cloud = {**SIMULATED_AWS, **credentials}
        self.type("gpulease-server check")
        self.replace()

    def new_cluster(self) -> None:
        """A PostgreSQL server without gpulease's roles."""
        self._clusters += 1
        folder = self.folder / f"cluster-{self._clusters}"
        self._cluster = EmbeddedCluster(folder, free_port(), "secret", {**SETTINGS, **FORGETFUL})
        self._stack.enter_context(embedded_postgres.running(self._cluster))
        with psycopg.connect(self._cluster.admin_url, autocommit=True) as administrator:
            administrator.execute("DROP DATABASE gpulease")
            administrator.execute("DROP ROLE gpulease")

    def _start(self, name: str, command: str, environment: Mapping[str, str]) -> None:
        with (self.folder / f"{name}.log").open("ab") as log:
            argv = ["/bin/sh", "-c", f"exec {command}"]
            self._processes[name] = subprocess.Popen(
                argv, cwd=self.folder, env=dict(environment), stdin=subprocess.DEVNULL, stdout=log, stderr=log
            )

    def _stop(self, name: str) -> None:
        process = self._processes.pop(name)
        process.send_signal(signal.SIGTERM)
        process.wait(PATIENCE)

    def _is_well(self) -> bool:
        urls = [f"http://{LOOPBACK}:{port}" for name, port in self._ports.items() if name in self._programs]
        try:
            answers = [httpx.get(f"{url}/readyz", timeout=5, trust_env=False, verify=NO_TLS) for url in urls]
        except httpx.TransportError:
            return False
        return all(one.is_success and set(one.json()["checks"].values()) == {"ok"} for one in answers)

    def _watch_for_the_dead(self, key: str) -> None:
        """Starts the dead-man switch, which reports its pass."""
        for command in self._later:
            environment = {**self._environment("deadman"), "GPULEASE_HEARTBEAT_KEY": key}
            self._start("deadman", self._placed(command), environment)
        assert wait_until(lambda: "deadman" in self.summary(), timeout=PATIENCE, poll=0.5), self._logs()
        self._stop("deadman")

    def _logs(self) -> str:
        return "\n".join(path.read_text(errors="replace")[-2000:] for path in self.folder.glob("*.log"))

    def _environment(self, command: str) -> dict[str, str]:
        """As docs/howto/deploy.md has it for a process, else that of the person at the keyboard."""
        programs = [str(Path(sys.executable).parent), str(embedded_postgres.program("psql").parent)]
        path = os.pathsep.join([*programs, "/usr/bin", "/bin"])
        common = {"PATH": path, "HOME": str(self.folder), "COLUMNS": "200", **_QUICK}
        credentials = {**self._cloud, "GPULEASE_CONFIG": str(self.folder / "gpulease.toml")}
        if command in self._ports:
            return {**common, **self._login(self._logins["api"]), "GPULEASE_PORT": str(self._ports[command])}
        if command in {"worker", "inventory"} or re.search("gpulease-server (reconcile|check)", command):
            ours = {"GPULEASE_INSTALLATION_ID": self._installation()}
            return {**common, **credentials, **ours, **self._login(self._logins["worker"])}
        if command == "deadman":
            return {**common, **self._cloud}
        passwords = {"GPULEASE_API_PASSWORD": self._password, "GPULEASE_WORKER_PASSWORD": self._password}
        owner = self._login("gpulease_owner")
        person = {"GPULEASE_URL": self.api_url, "GPULEASE_KEY": self._key, "KEY": self._key}
        return {
            **common,
            **owner,
            **passwords,
            **person,
            "OWNER_URL": self._url("gpulease_owner", self._owner_password),
        }

    def _login(self, name: str) -> dict[str, str]:
        passwords = {**dict.fromkeys(_LOGINS.values(), self._password), "gpulease_owner": self._owner_password}
        url, password = self._url(name), passwords.get(name, PASSWORD)
        return {
            "GPULEASE_DATABASE_URL": url,
            "GPULEASE_DATABASE_PASSWORD": password,
            "GPULEASE_BROKER_URL": self._broker_url,
        }

    def _url(self, name: str, password: str | None = None) -> str:
        parts = urlsplit(self._cluster.url())
        who = name if password is None else f"{name}:{quote(password, safe='')}"
        return urlunsplit(parts._replace(netloc=f"{who}@{parts.hostname}:{parts.port}"))
