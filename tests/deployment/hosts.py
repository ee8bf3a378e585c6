"""Two hosts behind HAProxy: restarts one by one under load, a host that is cut off, a worker that is stopped."""

import signal
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import psycopg

from app.local.ports import LOOPBACK, free_port
from app.local.waiting import wait_until
from bench.three_clouds import on_the_way, wait_for_none
from tests.deployment import documents
from tests.deployment.claims import Claims
from tests.deployment.database import Check, prepare
from tests.deployment.installation import Installation, Passwords, await_ready, clouds, readiness, running
from tests.deployment.load import load
from tests.deployment.network import Host, Network
from tests.deployment.processes import CLEAN_ENDS, Process, await_, expect
from tests.deployment.servers import haproxy, postgres, redis_server
from tests.e2e.cloud import Cloud
from tests.e2e.people import Operator
from tests.e2e.truth import differences

API_PORT = 8000
CUT_SECONDS = 120.0
GO_ON_AFTER_CUT_SECONDS = 30.0
GO_ON_AFTER_STOP_SECONDS = 2.0
SETTLE_SECONDS = 120.0
_SLOW_CALL_SECONDS = 3.0
_BURST = 40
_HELD_AT_LEAST = 3
_WISH: Mapping[str, Any] = {
    "gpu": {"model": "A10G", "count": 1},
    "market": "on_demand",
    "ttl_seconds": 3600,
    "wait_seconds": 300,
}


@dataclass(frozen=True)
class Place:
    """A process and the host it runs on."""

    process: Process
    service: str
    host: Host


class HostsTrial:
    """`network` is None where there are no namespaces: then all processes are on one host."""

    def __init__(self, installation: Installation, network: Network | None, front: str) -> None:
        self._installation = installation
        self._network = network
        self._front = front
        self._a = network.a if network else Host("A", LOOPBACK)
        self._b = network.b if network else self._a
        self.places = self._make_places()
        self.figures: dict[str, Any] = {}

    @contextmanager
    def ready(self) -> Iterator[dict[str, Check]]:
        """All processes run; the checks that can be made of them."""
        installation = self._installation
        with ExitStack() as stack:
            processes = [place.process for place in self.places]
            stack.enter_context(running(processes))
            await_ready(self._front, processes)
            self._claims = Claims(installation.postgres.superuser_url)
            stack.callback(self._claims.close)
            self._operator = stack.enter_context(Operator(self._front, installation.operator_key()))
            self._cloud = stack.enter_context(Cloud(installation.cloud_url))
            self._operator.wait_for_offerings("aws", "gcp", "azure")
            self._tenant = stack.enter_context(self._operator.tenant("hosts", 100_000))
            checks: dict[str, Check] = {
                "every process restarted one by one under load: no failed request, no lost lease": self.restart_all,
                "after SIGTERM of a worker its leases go on within 2 s": self.judge_restarts,
            }
            if self._network is not None:
                checks["host B cut off and a worker of A stopped for two minutes, side by side"] = self.cut_and_stop
                checks["what host B had in flight goes on within 30 s of the cut"] = self.judge_cut
            else:
                checks["a worker stopped for two minutes"] = self.cut_and_stop
            checks["no twin, no orphan, no ghost; afterwards nothing is left"] = self.judge_all
            yield checks

    # --- the processes -----------------------------------------------------------------------------------

    def _make_places(self) -> list[Place]:
        """As docs/howto/deploy.md has them, and a second worker on A, which is the one that is stopped."""
        hosts = [("a", self._a), ("b", self._b)]
        places = []
        for name, host in hosts:
            port = API_PORT if self._network else free_port()
            settings = {"GPULEASE_HOST": host.address, "GPULEASE_PORT": str(port)}
            places.append(self._place("api", name, host, **settings))
            places += [self._place(service, name, host) for service in ("worker", "inventory")]
        return [*places, self._place("worker", "a2", self._a)]

    def _place(self, service: str, name: str, host: Host, **settings: str) -> Place:
        process = self._installation.process(service, f"{service}-{name}", before=host.before, **settings)
        return Place(process, service, host)

    def api_addresses(self) -> list[str]:
        return [
            f"{place.host.address}:{place.process.environment['GPULEASE_PORT']}"
            for place in self.places
            if place.service == "api"
        ]

    def _named(self, name: str) -> Place:
        (place,) = (place for place in self.places if place.process.name == name)
        return place

    # --- restarts ----------------------------------------------------------------------------------------

    def restart_all(self) -> str:
        stranded: dict[str, float] = {}
        held: list[str] = []
        drained: dict[str, float] = {}
        with load(self._front, self._tenant.key) as tally:
            wait_until(lambda: len(tally.leases) > 5, timeout=30)
            for place in self.places:
                held += self._in_the_middle(place) if place.service == "worker" else []
                stopped = time.monotonic()
                code = place.process.stop()
                drained[place.process.name] = time.monotonic() - stopped
                expect(code in CLEAN_ENDS, f"{place.process.name} ended with {code}:\n{place.process.last_lines()}")
                stranded[place.process.name] = self._claims.seconds_until_none_is_stranded(within=100.0)
                place.process.start()
                self._await_sign_of_life(place)
        wait_for_none(lambda: on_the_way(self._tenant), SETTLE_SECONDS)
        self.figures["restarts"] = {
            "requests": tally.requests,
            "failed": tally.failed[:20],
            "leases": len(tally.leases),
            "processes": len(self.places),
            "drain_seconds": {name: round(seconds, 2) for name, seconds in drained.items()},
            "held_at_sigterm": len(held),
            "stranded_seconds": {name: round(seconds, 2) for name, seconds in stranded.items()},
        }
        leases = {lease["id"]: lease for lease in self._tenant.leases()}
        lost = sorted(set(tally.leases) - set(leases))
        failed = [f"{lease['id']}: {lease['reason']}" for lease in leases.values() if lease["state"] == "failed"]
        stuck = [f"{lease['id']}: {lease['state']}" for lease in on_the_way(self._tenant)]
        expect(not tally.failed, f"{len(tally.failed)} of {tally.requests} requests failed: {tally.failed[:5]}")
        expect(not lost and not failed and not stuck, f"lost {lost[:5]}, failed {failed[:5]}, stuck {stuck[:5]}")
        return f"0 of {tally.requests} requests failed, 0 of {len(tally.leases)} leases lost"

    def _in_the_middle(self, place: Place) -> list[str]:
        """Leases that the worker holds at one moment. Under load there soon are some."""
        numbers = self._numbers(place)
        held: list[str] = []

        def holds() -> bool:
            held[:] = self._claims.held_by(numbers)
            return bool(held)

        wait_until(holds, timeout=20, poll=0.02)
        return held

    def _numbers(self, place: Place) -> list[int]:
        """Of the worker; on host B, which has one worker, of the whole host."""
        alone = self._network is not None and place.host is self._network.b
        return self._claims.numbers(place.host.address, None if alone else place.process.pid)

    def judge_restarts(self) -> str:
        figures = self.figures.get("restarts", {})
        held, stranded = figures.get("held_at_sigterm", 0), figures.get("stranded_seconds", {})
        expect(held, "no worker held a lease when it was told to stop")
        late = {name: seconds for name, seconds in stranded.items() if seconds > GO_ON_AFTER_STOP_SECONDS}
        expect(not late, f"leases waited so many seconds for a process that had ended: {late}")
        return f"at most {max(stranded.values())} s after its end ({held} leases were in the middle of a step)"

    def _await_sign_of_life(self, place: Place) -> None:
        process = place.process
        if place.service == "api":
            url = f"http://{place.host.address}:{process.environment['GPULEASE_PORT']}"
            await_(f"{process.name} answers", lambda: readiness(url).get("database") == "ok", 60)
            return
        with psycopg.connect(self._installation.postgres.superuser_url, autocommit=True) as connection:
            beat = "SELECT FROM worker_heartbeat WHERE name LIKE %s AND seen_at > now() - interval '5 seconds'"
            name = f"{place.service}-%-{process.pid}-%"
            await_(f"{process.name} lives", lambda: connection.execute(beat, [name]).rowcount > 0, 60)

    # --- a cut and a stop --------------------------------------------------------------------------------

    def cut_and_stop(self) -> str:
        """Calls to AWS take three seconds meanwhile, so that both workers are in the middle of some."""
        stopped, cut = self._named("worker-a2"), self._named("worker-b")
        slow = self._cloud.fault("RunInstances", "delay", delay_seconds=_SLOW_CALL_SECONDS, times=None)
        with slow:
            of_stopped, of_cut = self._numbers(stopped), self._numbers(cut) if self._network else []
            expect(of_stopped and (of_cut or not self._network), "no process shows that it lives")
            made = [self._tenant.create({**_WISH, "providers": ["aws"]}) for _ in range(_BURST)]
            self._await_claims(of_stopped, of_cut)
            began = time.monotonic()
            if self._network is not None:
                self._network.cut()
            stopped.process.send(signal.SIGSTOP)
            held_b, held_stopped = self._claims.held_by(of_cut), self._claims.held_by(of_stopped)
            went_on = self._claims.seconds_until_all_go_on(
                {*held_b, *held_stopped}, {*of_cut, *of_stopped}, began, within=110.0
            )
            while time.monotonic() - began < CUT_SECONDS:
                made.append(self._tenant.create(dict(_WISH)))
                wait_until(lambda: False, timeout=min(5.0, max(0.0, CUT_SECONDS - (time.monotonic() - began))))
        if self._network is not None:
            self._network.heal()
        stopped.process.send(signal.SIGCONT)
        for place in self.places:
            self._await_sign_of_life(place)
        left = wait_for_none(lambda: on_the_way(self._tenant), SETTLE_SECONDS)
        leases = {lease["id"]: lease for lease in self._tenant.leases()}
        self.figures["cut"] = {
            "leases": len(made),
            "held_by_b": len(held_b),
            "b_go_on_seconds": round(max((went_on[lease] for lease in held_b), default=0.0), 1),
            "held_by_stopped": len(held_stopped),
            "stopped_go_on_seconds": round(max((went_on[lease] for lease in held_stopped), default=0.0), 1),
        }
        expect(not left, f"still on the way: {[(lease['id'], lease['state'], lease['reason']) for lease in left][:5]}")
        inactive = [
            f"{one}: {leases[one]['state']} {leases[one]['reason']}" for one in made if leases[one]["state"] != "active"
        ]
        expect(not inactive, f"not active: {inactive[:5]}")
        self._expect_agreement()
        figures = self.figures["cut"]
        stopped_words = (
            f"{figures['held_by_stopped']} of the stopped worker went on after {figures['stopped_go_on_seconds']} s"
        )
        return f"{len(made)} leases, all active; 0 twins, 0 orphans; {stopped_words}"

    def _await_claims(self, *processes: Sequence[int]) -> None:
        """Until each of these processes holds leases, which it will hold for as long as its calls take."""
        wanted = [numbers for numbers in processes if numbers]

        def all_hold() -> bool:
            return all(len(self._claims.held_by(numbers)) >= _HELD_AT_LEAST for numbers in wanted)

        await_("both workers hold leases", all_hold, 20, poll=0.05)

    def judge_cut(self) -> str:
        figures = self.figures.get("cut", {})
        held, seconds = figures.get("held_by_b", 0), figures.get("b_go_on_seconds", 0.0)
        expect(held, "host B had nothing in flight")
        expect(seconds <= GO_ON_AFTER_CUT_SECONDS, f"one of {held} waited {seconds} s")
        return f"{held} leases, the last after {seconds} s"

    # --- judgement ---------------------------------------------------------------------------------------

    def judge_all(self) -> str:
        tenant = self._tenant
        self._expect_agreement()
        ended = len(tenant.leases())
        tenant.release_all()
        used = wait_for_none(lambda: [*tenant.used().items()])
        expect(not used, f"quota in use: {used}")
        resources = wait_for_none(lambda: self._cloud.resources_of_tenant(tenant.id), 60)
        expect(not resources, f"left at the clouds: {resources[:3]}")
        self._expect_agreement()
        return f"{ended} leases"

    def _expect_agreement(self) -> None:
        url = self._installation.postgres.superuser_url
        found = wait_for_none(partial(differences, self._operator, self._cloud, url), 60)
        expect(not found, f"{len(found)} differences: {found[:5]}")


@contextmanager
def hosts_trial(folder: Path, network: Network | None) -> Iterator[HostsTrial]:
    """Servers, clouds and HAProxy on host A, as far as they have a host."""
    address = network.a.address if network else LOOPBACK
    cloud_port = free_port()
    with ExitStack() as stack:
        server = stack.enter_context(postgres(folder, address))
        broker_url = stack.enter_context(redis_server(folder, address))
        before = network.internet.before if network else ()
        cloud_url = stack.enter_context(clouds(folder, cloud_port, before))
        if network is not None:
            for host in (network.internet, network.a, network.b):
                stack.enter_context(_way_to_the_clouds(folder, network, host, cloud_port))
        installation = Installation(
            folder=folder, postgres=server, broker_url=broker_url, cloud_url=cloud_url, passwords=Passwords()
        )
        prepare(installation)
        port = free_port()
        trial = HostsTrial(installation, network, f"http://{LOOPBACK}:{port}")
        stack.enter_context(haproxy(folder, "haproxy", _front(port, trial.api_addresses())))
        yield trial


def _front(port: int, addresses: Sequence[str]) -> str:
    """docs/howto/deploy.md's configuration, without TLS and with the trial's own addresses."""
    configuration = documents.block("howto/deploy.md", "", "backend api")
    places = {
        "bind :443 ssl crt /etc/haproxy/gpulease.pem": f"bind {LOOPBACK}:{port}",
        "10.0.0.1:8000": addresses[0],
        "10.0.0.2:8000": addresses[1],
    }
    for documented, own in places.items():
        expect(documented in configuration, f"docs/howto/deploy.md does not say {documented}")
        configuration = configuration.replace(documented, own)
    return configuration


def _way_to_the_clouds(folder: Path, network: Network, host: Host, port: int) -> Any:
    """Simulated clouds listen at loopback alone. On the internet they are let out, on a host they are brought to loopback."""
    outside, inside = f"{network.internet.address}:{port}", f"{LOOPBACK}:{port}"
    here, there = (outside, inside) if host is network.internet else (inside, outside)
    configuration = (
        "defaults\n  mode tcp\n  timeout connect 5s\n  timeout client 90s\n  timeout server 90s\n"
        f"listen clouds\n  bind {here}\n  server clouds {there}\n"
    )
    return haproxy(folder, f"clouds-{host.name}", configuration, host.before)
