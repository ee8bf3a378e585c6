"""A night of an operator: an installation on a virtual clock, and each view of it, asked again and again.

One worker and one inventory process run their own code over PostgreSQL and a simulated AWS account, and one API process
answers. Prometheus' part is played by `promql`: a scrape after each step of time.
"""

import base64
import io
import json
import math
import os
import re
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Iterator
from collections.abc import Set as AbstractSet
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from types import SimpleNamespace
from typing import Any, LiteralString

import httpx
import psycopg
import pytest
import structlog
import yaml
from fastapi import FastAPI
from prometheus_client import generate_latest
from rich.console import Console

from app.cli import ops_views
from app.db.core import engine
from app.db.core.ids import new_id
from app.db.fleet import account_checks, jobs
from app.domain.ids import KeyId, LeaseId
from app.domain.tags import ATTEMPT, DEADLINE, INSTALLATION, LEASE
from app.domain.tokens import launch_token
from app.observability.logs import configure_logs
from app.prerequisites import ensure_operator_key, make_deadman_key
from app.services import health
from app.services import metrics as metrics_service
from app.services.key_format import generate
from app.settings import load_settings
from tests.api.conftest import Caller, serving
from tests.api.fleet import Fleet as Rows
from tests.harness.refusing_server import refusing_server
from tests.house.sources import ROOT
from tests.observability.promql import Scrape, evaluate, scrape
from tests.workers.failing import Failing
from tests.workers.fleet import ACCOUNT, Fleet
from tests.workers.virtual_time import SCHEMA, VirtualTime
from tools.runtimes import find_node
from workers.jobs.housekeeping import number_events
from workers.jobs.runner import PeriodicRunner, ensure_jobs
from workers.jobs.schedule import job_specs
from workers.process import bootstrap
from workers.runtime.loop import Loop

MEASURES = os.environ.get("GPULEASE_SITUATIONS") == "all"
"""As `python -m tests.observability` does: every situation, and the seconds until each view says it."""
_MEASURED_STEPS = ((60, 15.0), (300, 30.0), (900, 60.0))
"""Seconds between two scrapes until so many seconds have passed. Later steps are a tenth of the time so far."""
_FIRST_STEPS = ((60, 30.0), (120, 60.0))
"""When nothing is measured. Later steps are half of the time so far, and no limit is stepped over."""
RULES = ROOT / "docs" / "alerts" / "gpulease.rules.yml"
ALERTS: dict[str, dict[str, Any]] = {
    rule["alert"]: rule
    for group in yaml.safe_load(RULES.read_text(encoding="utf-8"))["groups"]
    for rule in group["rules"]
}
VIEWS = ("API", "metric", "alert", "summary", "dashboard", "log")
_JOBS_OF_A_PASS = 60
_DASHBOARD = """
import { createInterface } from "node:readline";
const { troubles } = await import("%s");
for await (const line of createInterface({ input: process.stdin })) console.log(JSON.stringify(troubles(JSON.parse(line))));
"""

MakeFleet = Callable[..., Fleet]


def seconds_of(duration: str | None) -> float:
    """As Prometheus writes a duration. None: 0."""
    return float(duration[:-1]) * {"s": 1, "m": 60, "h": 3600}[duration[-1]] if duration else 0.0


@cache
def _longest_step(alert: str | None) -> float:
    """Prometheus needs two scrapes within each range of the alert's expression."""
    ranges = re.findall(r"\[(\w+)\]", ALERTS[alert]["expr"]) if alert else ()
    return min((seconds_of(one) / 2 for one in ranges), default=math.inf)


def _as_url(source: str) -> str:
    """A module that Node imports without a file of the kind that it takes for a module."""
    return f"data:text/javascript;base64,{base64.b64encode(source.encode()).decode()}"


class Dashboard:
    """The function of the dashboard that chooses what an operator sees, in a Node of its own."""

    def __init__(self) -> None:
        source = (ROOT / "dashboard" / "troubles.js").read_text(encoding="utf-8")
        texts = (ROOT / "dashboard" / "format.js").read_text(encoding="utf-8")
        module = _as_url(source.replace("./format.js", _as_url(texts)))
        words = [str(find_node()), "--input-type=module", "--eval", _DASHBOARD % module]
        self._node = subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def shown(self, summary: Any) -> str:
        """The notices of the page *Fleet*, as one text."""
        assert self._node.stdin is not None
        assert self._node.stdout is not None
        self._node.stdin.write(json.dumps(summary) + "\n")
        self._node.stdin.flush()
        notices = json.loads(self._node.stdout.readline())
        return "\n".join(f"{one['name']} {one.get('place')} {one.get('message')}" for one in notices)

    def close(self) -> None:
        self._node.communicate()


class Night:
    """What goes on. `each_step`: what happens again at each step of time, such as a request that fails."""

    def __init__(self, app: FastAPI, url: str, lines: io.StringIO, given: "Given") -> None:
        self._given = given
        self._url = url
        self.app = app
        self.operator = Caller(app, ensure_operator_key(url, None))
        self._rows = Rows(url)
        self.failing = given.failing
        self.fleet = self.start()
        self.sim = self.fleet.sim
        self.sweeps = self.numbers = True
        self._servers = AsyncExitStack()
        self.alive = {"worker", "inventory", "api"}
        self.host_clock_ahead = 0.0
        self.each_step: list[Callable[[], Awaitable[None] | None]] = []
        self._at = self._began = 0.0
        self.since: dict[str, float] = {}
        """By alert: when its expression became true."""
        self._generation = 0
        self._clock = given.clock
        self._lines = lines
        self._scrapes: list[Scrape] = []
        self._runners: dict[str, PeriodicRunner] = {}
        self.use(self.fleet)

    def start(self, **settings: Any) -> Fleet:
        """New processes over the same database and cloud."""
        return self._given.make_fleet(connect_account=self.failing.connect, **settings)

    def file(self, text: str) -> Path:
        """An accounts file."""
        path = self._given.folder / "other.toml"
        path.write_text(text)
        return path

    def use(self, fleet: Fleet) -> None:
        """The processes are those of this fleet from now on; those before stop."""
        for kind in self._runners:
            fleet.runtime.database.run(jobs.forget_heartbeat(self._name(kind)))
        self._generation += 1
        every = job_specs(fleet.runtime.settings)
        self.fleet = fleet
        ensure_jobs(fleet.runtime, every.all)
        of_workers = {**every.watch, **every.refresh, **every.housekeeping, **every.notices}
        self._runners = {
            "inventory": PeriodicRunner(fleet.runtime, every.inventory),
            "worker": PeriodicRunner(fleet.runtime, of_workers),
        }

    def settle(self) -> None:
        """As after a quiet day: every job ran a moment ago, and the account was checked."""
        self._beat("inventory")
        self._beat("worker")
        self.fleet.observe()
        self.run(
            "UPDATE periodic_job SET last_started_at = now(), last_ok_at = now(),"
            " next_due = now() + make_interval(secs => interval_seconds)"
        )
        self.fleet.runtime.database.run(account_checks.save(ACCOUNT, []))
        self.run("UPDATE account SET created_at = now() - interval '1 day'")
        self.work()
        self._new_lines()

    def run(self, statement: LiteralString, *parameters: object) -> None:
        """As somebody with the database's password."""
        self._rows.run(statement.replace("now()", f"{SCHEMA}.now()"), *parameters)

    # --- time ---------------------------------------------------------------------------------------------------

    @property
    def seconds(self) -> float:
        """Since `begin`."""
        return self._at - self._began

    def begin(self) -> None:
        """A situation begins now."""
        self._began = self._at

    async def pass_time(self, alert: str | None, limits: Iterable[float] = (), *, alone: bool = False) -> None:
        """One step: the processes that live work, then Prometheus scrapes.

        `limits`: when a look is due, in seconds since `begin`. `alone`: nothing but the alert is still awaited.
        """
        step = self._measured_step() if MEASURES else self._step(alert, limits, alone=alone)
        self._at += step
        self._clock.forward(step)
        self.work()
        for act in self.each_step:
            result = act()
            if result is not None:
                await result

    def _measured_step(self) -> float:
        return next((step for until, step in _MEASURED_STEPS if self.seconds < until), self.seconds / 10)

    def _step(self, alert: str | None, limits: Iterable[float], *, alone: bool) -> float:
        """While the expression of an alert that is awaited alone is true, Prometheus looks at its beginning, halfway and at
        its end."""
        step = next((step for until, step in _FIRST_STEPS if self.seconds < until), math.ceil(self.seconds / 2))
        if alone and alert in self.since:
            lasting = seconds_of(ALERTS[alert].get("for"))
            step = min(max(step, lasting / 2), self.since[alert] + lasting - self._at)
        return min([step, _longest_step(alert), *(limit - self.seconds for limit in limits if limit > self.seconds)])

    def work(self) -> None:
        """What the processes do meanwhile: signs of life, due jobs, due leases, numbers of events."""
        for kind in ("inventory", "worker"):
            if kind in self.alive:
                self._beat(kind)
                self._run_jobs(self._runners[kind])
        if "worker" in self.alive and self.sweeps:
            while self.fleet.step():
                pass
        if "worker" in self.alive and self.numbers:
            number_events(self.fleet.runtime)

    def _run_jobs(self, runner: PeriodicRunner) -> None:
        """Those that are due, as the outermost loop of a thread runs them."""
        ran: list[bool] = []
        loop = Loop("jobs", lambda: ran.append(runner.run_one()), stopping=self.fleet.runtime.stopping)
        for number in range(1, _JOBS_OF_A_PASS):
            loop._pass()
            if len(ran) < number or not ran[-1]:
                break

    def _beat(self, kind: str) -> None:
        self.fleet.runtime.database.run(jobs.beat_at("host-1", self._name(kind), kind))

    def _name(self, kind: str) -> str:
        return f"{kind}-{self._generation}"

    # --- what goes wrong ----------------------------------------------------------------------------------------

    def active(self) -> LeaseId:
        """A lease with a running VM."""
        lease_id = self.fleet.create(ttl=36_000)
        self.fleet.drive_to(lease_id, "active")
        return lease_id

    def plant_genuine(self, lease_id: LeaseId) -> str:
        """A VM that the first launch of a lease has made."""
        installation = self.fleet.runtime.installation
        tags = {INSTALLATION: installation.id, LEASE: lease_id, ATTEMPT: "1", DEADLINE: "1"}
        token = launch_token(installation.token_key, installation.id, lease_id, 1)
        return self.fleet.plant(tags=tags, token=token)[0]

    def refuse_writes(self, state: str, table: str = "audit") -> None:
        """PostgreSQL refuses changes of a table, and with 53100 those of jobs too, as on a full disk."""
        tables = [table, "periodic_job"] if state == "53100" else [table]
        with psycopg.connect(self._url, autocommit=True) as owner:
            owner.execute(
                f"CREATE OR REPLACE FUNCTION night() RETURNS trigger LANGUAGE plpgsql AS"
                f" $$ BEGIN RAISE EXCEPTION 'refused' USING ERRCODE = '{state}'; END $$".encode()
            )
            for name in tables:
                owner.execute(
                    f"CREATE TRIGGER night BEFORE INSERT OR UPDATE ON {name} FOR EACH ROW EXECUTE FUNCTION night()".encode()
                )

    async def request_a_change(self) -> None:
        """A request that writes."""
        await self.operator.put("/v1/ops/launches", json={"stopped": False})

    async def lose_database(self, state: str) -> None:
        """The API process has a server that refuses each login, and a key that nobody can check."""
        url = await self._servers.enter_async_context(refusing_server(state))
        settings = load_settings(database_url=url, broker_url=self._given.broker_url)
        self.app = await self._servers.enter_async_context(serving(settings))
        self.app.state.services.metrics._clock = self._clock.monotonic
        self.operator = Caller(self.app, generate(KeyId(new_id("key"))).text)

    async def report_with_expired_key(self) -> None:
        """The dead-man switch has reported until now, and goes on with a key that has just expired."""
        assert (await self.operator.post("/v1/ops/deadman")).status_code == 204
        deadman = Caller(self.app, make_deadman_key(self._url))
        self.run("UPDATE api_key SET expires_at = now() WHERE role = 'deadman'")

        async def report() -> None:
            await deadman.post("/v1/ops/deadman")

        self.each_step.append(report)

    async def end(self) -> None:
        """Nothing is left that the next test would find."""
        await self._servers.aclose()
        with psycopg.connect(self._url, autocommit=True) as owner:
            owner.execute("DROP FUNCTION IF EXISTS night CASCADE")
        self._rows.run(
            "UPDATE quota q SET used = (SELECT coalesce(sum(amount), 0) FROM quota_claim c"
            " WHERE c.tenant_id = q.tenant_id AND c.resource = q.resource)"
        )

    # --- views --------------------------------------------------------------------------------------------------

    async def look(self, alert: str | None, views: AbstractSet[str]) -> "Seen":
        """What these views show now. Others may show nothing."""
        texts = await self._texts() if views & {"API", "summary", "dashboard"} else {}
        self._scrapes = [one for one in self._scrapes if one.at > self._at - 7200]
        self._scrapes.append(scrape(self._at, *await self._pages()))
        firing = {alert} if alert is not None and self._fires(alert) else set()
        return Seen(scrape=self._scrapes[-1], firing=firing, log=self._new_lines(), **texts)

    async def _texts(self) -> dict[str, str]:
        """What the API answers, and what is made of it."""
        summary, ready = await self._get("/v1/ops/summary"), await self._get("/readyz")
        is_ok = summary is not None and summary.status_code == 200
        document = summary.json() if is_ok and summary is not None else None
        text = "" if summary is None else summary.text
        return {
            "api": text + ("" if ready is None else ready.text),
            "summary": _printed(document) if document is not None else text,
            "dashboard": self._given.dashboard.shown(document) if document is not None else text,
        }

    async def _get(self, path: str) -> httpx.Response | None:
        if "api" not in self.alive:
            return None
        with self._host_clock():
            return await self.operator.get(path)

    async def _pages(self) -> list[str]:
        pages = [generate_latest(self.fleet.runtime.metrics.registry).decode()]
        answer = await self._get("/metrics")
        return pages if answer is None else [*pages, answer.text]

    @contextmanager
    def _host_clock(self) -> Iterator[None]:
        now = SimpleNamespace(time=lambda: time.time() + self.host_clock_ahead, monotonic=self._clock.monotonic)
        with pytest.MonkeyPatch.context() as patch:
            for module in (health, metrics_service):
                patch.setattr(module, "time", now)
            yield

    def _fires(self, name: str) -> bool:
        rule = ALERTS[name]
        if not evaluate(rule["expr"], *self._scrapes):
            self.since.pop(name, None)
            return False
        return self._at - self.since.setdefault(name, self._at) >= seconds_of(rule.get("for"))

    def _new_lines(self) -> list[dict[str, Any]]:
        told = [json.loads(line) for line in self._lines.getvalue().splitlines()]
        self._lines.seek(0)
        self._lines.truncate()
        return told


def _printed(summary: Any) -> str:
    """What `gpulease ops summary` prints."""
    console = Console(file=io.StringIO(), width=1000)
    with console.capture() as capture:
        console.print(ops_views.summary(summary))
    return re.sub(r" +", " ", capture.get())


@dataclass(frozen=True, slots=True, kw_only=True)
class Seen:
    """What the views show at one moment. `log`: the lines since the look before."""

    scrape: Scrape
    firing: set[str]
    log: list[dict[str, Any]]
    api: str = ""
    summary: str = ""
    dashboard: str = ""


@contextmanager
def all_lines() -> Iterator[io.StringIO]:
    """The lines of every logger of the program."""
    stream, before = io.StringIO(), structlog.get_config()
    configure_logs("INFO", stream)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(bootstrap, "configure_logs", lambda *_: None)
        for name, module in list(sys.modules.items()):
            for attribute in ("log", "_log"):
                if name.startswith(("app.", "workers.")) and hasattr(getattr(module, attribute, None), "bind"):
                    patch.setattr(module, attribute, structlog.get_logger(name))
        yield stream
    configure_logs("INFO")
    structlog.configure(**before)


@dataclass(frozen=True, slots=True, kw_only=True)
class Given:
    """What a night is made of."""

    broker_url: str
    make_fleet: MakeFleet
    failing: Failing
    clock: VirtualTime
    dashboard: Dashboard
    folder: Path


@asynccontextmanager
async def night_of(database_url: str, given: Given) -> AsyncIterator[Night]:
    """One installation in which all is well."""
    arguments = {**engine._CONNECT_ARGS, "server_settings": {
        **engine._CONNECT_ARGS["server_settings"], "search_path": f"{SCHEMA},pg_catalog,public"}}  # fmt: skip
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(engine, "_CONNECT_ARGS", arguments)
        settings = load_settings(database_url=database_url, broker_url=given.broker_url, catalogue_cache_seconds=0)
        async with serving(settings) as app:
            app.state.services.metrics._clock = given.clock.monotonic
            with all_lines() as lines:
                night = Night(app, database_url, lines, given)
                night.settle()
                try:
                    yield night
                finally:
                    await night.end()
