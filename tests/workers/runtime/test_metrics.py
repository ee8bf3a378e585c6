"""What a worker process counts, and where it tells that."""

import socket
from collections.abc import Iterator
from typing import Any, cast

import httpx
import pytest
from prometheus_client import generate_latest
from sqlalchemy import select

from app.db.schema.tables import installation
from app.observability.traces import Traces
from app.settings import StartupError, load_settings
from app.settings.accounts import account_from_json
from cloudsim.testing import NO_TLS
from tests.workers.fleet import ACCOUNT, REGION, Fleet
from tests.workers.ports import METHODS
from workers.jobs.housekeeping import number_events
from workers.jobs.runner import JobSpec, PeriodicRunner, ensure_jobs
from workers.providers.errors import InsufficientCapacity, Unreachable
from workers.providers.ports import CALLS, Provider
from workers.providers.types import ListingPage
from workers.runtime.metered import metered
from workers.runtime.metrics import WorkerMetrics, serve_metrics
from workers.runtime.runtime import Runtime

AWS = account_from_json({"provider": "aws", "name": "main", "regions": ["us-east-1"]})


class Adapter:
    """Each call takes a second by its own clock; the second page of a listing breaks off."""

    ssh_user = "ubuntu"

    def __init__(self) -> None:
        self.now = 0.0

    def identity(self) -> str:
        self.now += 1
        return "me"

    def launch(self, region: str, params: dict[str, Any]) -> None:
        self.now += 1
        raise InsufficientCapacity("none", code="ICE")

    def list(self, regions: frozenset[str], installation: str) -> Iterator[ListingPage]:
        self.now += 1
        yield ListingPage(vms=())
        self.now += 2
        raise Unreachable("gone")


def told(metrics: WorkerMetrics, *parts: str) -> list[float]:
    """Values of the samples whose line has all these parts."""
    lines = generate_latest(metrics.registry).decode().splitlines()
    return [float(line.rsplit(" ", 1)[1]) for line in lines if line[0] != "#" and all(part in line for part in parts)]


@pytest.fixture
def metrics() -> WorkerMetrics:
    return WorkerMetrics()


@pytest.fixture
def adapter() -> Adapter:
    return Adapter()


@pytest.fixture
def provider(adapter: Adapter, metrics: WorkerMetrics) -> Provider:
    return metered(lambda *_: cast(Provider, adapter), metrics, Traces(), lambda: adapter.now)(AWS, load_settings())


def test_calls_are_timed_and_failures_counted_by_class(provider: Provider, metrics: WorkerMetrics) -> None:
    for _ in range(2):
        assert provider.identity() == "me"
    with pytest.raises(InsufficientCapacity):
        provider.launch("us-east-1", {})
    labels = ('account="main"', 'provider="aws"')
    assert told(metrics, "call_seconds_count", 'operation="identity"', *labels) == [2.0]
    assert told(metrics, "call_seconds_sum", 'operation="identity"') == [2.0]
    assert told(metrics, "errors_total", 'operation="launch"', 'class="InsufficientCapacity"', *labels) == [1.0]


def test_a_listing_is_timed_by_page_without_what_is_done_between(
    provider: Provider, adapter: Adapter, metrics: WorkerMetrics
) -> None:
    pages = provider.list(frozenset({"us-east-1"}), "gpl-1")
    next(pages)
    adapter.now += 100
    with pytest.raises(Unreachable):
        next(pages)
    assert told(metrics, "call_seconds_count", 'operation="list"') == [2.0]
    assert told(metrics, "call_seconds_sum", 'operation="list"') == [3.0]
    assert told(metrics, "errors_total", 'operation="list"', 'class="Unreachable"') == [1.0]


def test_all_else_is_the_adapters_own(provider: Provider) -> None:
    assert provider.ssh_user == "ubuntu"
    with pytest.raises(AttributeError):
        _ = provider.limits


def test_every_method_of_the_ports_is_marked_as_a_call_or_calls_nobody() -> None:
    """The dead-man switch alone uses `list_everywhere`, and the command `prices` alone `price_list`: no wrapper sees them."""
    unmarked = {"list_everywhere", "plan", "plan_batch", "price_list", "trust", "disk_kinds"}
    assert CALLS.keys() | unmarked == METHODS | {"check_account", "check_region"}


def test_a_life_is_counted_by_steps_and_by_its_time_to_ready(fleet: Fleet) -> None:
    metrics = fleet.runtime.metrics
    fleet.drive_to(fleet.create(), "active")
    assert told(metrics, "time_to_ready_seconds_count", 'provider="aws"', 'market="on_demand"') == [1.0]
    assert told(metrics, "step_seconds_count", 'step="Send"') == [1.0]
    assert told(metrics, "call_seconds_count", 'operation="launch"', f'account="{ACCOUNT}"') == [1.0]
    assert told(metrics, "step_failures_total") == [0.0, 0.0, 0.0]
    _fail_a_job(fleet)
    assert told(metrics, "job_seconds_count", 'kind="test"') == [1.0]
    assert told(metrics, "job_failures_total", 'kind="test"', 'class="Unreachable"', f'account="{ACCOUNT}"') == [1.0]


def _fail_a_job(fleet: Fleet) -> None:
    def fail(_runtime: Runtime, _account: str, region: str) -> None:
        assert region == REGION
        raise Unreachable("no route")

    kind = JobSpec(name="test", run=fail, interval=lambda _: 60.0)
    ensure_jobs(fleet.runtime, {"test": kind})
    assert PeriodicRunner(fleet.runtime, {"test": kind}).run_one()


def test_each_process_of_a_host_has_a_port_of_its_own() -> None:
    first = _free_run_of_ports()
    settings = load_settings(metrics_port=first)
    ports = [serve_metrics(settings, WorkerMetrics()) for _ in range(2)]
    assert ports == [first, first + 1]
    for port in ports:
        answer = httpx.get(f"http://127.0.0.1:{port}/metrics", verify=NO_TLS)
        assert "gpulease_step_failures_total" in answer.text


def _free_run_of_ports() -> int:
    """The first of two ports that are free just now."""
    while True:
        with socket.create_server(("127.0.0.1", 0)) as one:
            port: int = one.getsockname()[1]
        try:
            with socket.create_server(("127.0.0.1", port)), socket.create_server(("127.0.0.1", port + 1)):
                return port
        except (OSError, OverflowError):
            continue


def test_without_a_port_nothing_is_told_anywhere() -> None:
    assert serve_metrics(load_settings(), WorkerMetrics()) is None


def test_a_host_without_a_free_port_is_said_so() -> None:
    with (
        socket.create_server(("127.0.0.1", 65535)),
        pytest.raises(StartupError, match="no port from 65535 on is free"),
    ):
        serve_metrics(load_settings(metrics_port=65535), WorkerMetrics())


def test_a_pass_of_the_sequencer_that_finds_its_row_locked_is_counted(fleet: Fleet) -> None:
    """Nothing else would show it: the pass succeeds."""
    fleet.create()
    fleet.step()
    skips = "gpulease_sequencer_skips_total"
    value = fleet.runtime.metrics.registry.get_sample_value
    assert value(skips) == 0
    with fleet.runtime.database.begin() as other:
        other.execute(select(installation).with_for_update())
        assert number_events(fleet.runtime) == 0
    assert value(skips) == 1
    assert number_events(fleet.runtime) > 0
    assert value(skips) == 1
