"""The check that cloudsim makes for members of a group, with the user data of the three clouds."""

import asyncio
import itertools
import json
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import partial
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest

from app.domain.groups.checks import parse_group_check
from cloudsim.group_checks import GroupChecks
from cloudsim.server import Simulation
from cloudsim.settings import Settings
from cloudsim.world import Vm, World
from tests.cloudsim.gpus.test_agents import CLOUDS, launched, until
from tests.cloudsim.ssh.test_guest import kept
from tests.workers.providers.samples import spec
from workers.providers.types import GroupSpec

TOKEN = "fedcba9876543210" * 4


class Api:
    """Answers with `hosts`, and keeps the reports. `refusals`: so many questions fail before."""

    def __init__(self) -> None:
        self.hosts: list[str] = []
        self.reports: list[dict[str, Any]] = []
        self.refusals = 0
        self.url = ""

    def group(self) -> dict[str, Any]:
        hosts = [{"rank": rank, "private_ip": address, "gpus": 8} for rank, address in enumerate(self.hosts)]
        return {"complete": bool(hosts), "rank": 0 if hosts else None, "hosts": hosts}


@contextmanager
def serving(api: Api) -> Iterator[None]:
    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            assert self.headers["Authorization"] == f"Bearer {TOKEN}"
            if api.refusals:
                api.refusals -= 1
                self._answer(503, b"{}")
            else:
                self._answer(200, json.dumps(api.group()).encode())

        def do_POST(self) -> None:
            api.reports.append(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))
            self._answer(204, b"")

        def _answer(self, status: int, body: bytes) -> None:
            self.send_response(status)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the base class calls it so
            """Nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    api.url = f"http://127.0.0.1:{server.server_port}/v1/group-hosts"
    try:
        yield
    finally:
        server.shutdown()
        server.server_close()


def member(world: World, provider: str, url: str) -> Vm:
    """A VM whose program asks every few milliseconds instead of seconds."""
    vm = launched(world, provider, "http://127.0.0.1:9")
    group = GroupSpec(
        group_id="group_1", placement="any", interconnect="none", hosts_url=url, token=TOKEN, ssh_private_key=None
    )
    vm.spec |= kept(provider, spec(group=group))
    return vm


async def checking(world: World, condition: Callable[[], Any]) -> None:
    running = asyncio.create_task(GroupChecks(world).run())
    try:
        await until(condition)
    finally:
        running.cancel()
        with suppress(asyncio.CancelledError):
            await running


@pytest.fixture
def world() -> World:
    """A second passes at each look at the time."""
    return Simulation(Settings(boot_seconds=0), clock=partial(next, itertools.count(1_000_000.0))).world


@pytest.mark.parametrize("provider", CLOUDS)
async def test_a_member_reports_that_it_reaches_the_others_once_they_are_ready(world: World, provider: str) -> None:
    api = Api()
    api.refusals = 1
    with serving(api):
        first, second = member(world, provider, api.url), member(world, provider, api.url)
        api.hosts = [first.private_ip, second.private_ip]
        await checking(world, lambda: len(api.reports) >= 2)
    for report in api.reports:
        found = parse_group_check(report)
        assert (found.nodes, found.mesh, found.all_reduce) == (2, "ok", None)


async def test_a_member_that_never_comes_is_missing_and_one_that_ends_is_missed_later(world: World) -> None:
    api = Api()
    with serving(api):
        first, second = member(world, "aws", api.url), member(world, "aws", api.url)
        api.hosts = [first.private_ip, second.private_ip, "10.255.255.254"]
        await checking(world, lambda: len(api.reports) >= 2)
        assert [report["unreachable"] for report in api.reports] == [[2], [2]]
        api.hosts.pop()
        api.reports.clear()
        await checking(world, lambda: len(api.reports) >= 2)
        world.end(second)
        api.reports.clear()
        await checking(world, lambda: api.reports)
    assert api.reports[0]["unreachable"] == [1]


async def test_a_vm_without_a_group_asks_nobody(world: World) -> None:
    api = Api()
    with serving(api):
        launched(world, "aws", "http://127.0.0.1:9")
        grouped = member(world, "aws", api.url)
        api.hosts = [grouped.private_ip]
        await checking(world, lambda: api.reports)
    assert len(api.reports) == 1
