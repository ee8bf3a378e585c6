"""A worker over real Postgres and a simulated AWS account."""

from collections.abc import Callable, Iterator
from functools import cache, partial
from pathlib import Path
from typing import Any

import pytest
from botocore.client import ClientCreator
from botocore.hooks import BaseEventHooks, EventAliaser, HierarchicalEmitter
from starlette import routing

from app.db.core import connections
from app.observability.traces import Traces
from app.settings import load_settings
from cloudsim.testing import Control, running
from tests.failpoints import build_failing
from tests.harness.cached_settings import read_settings
from tests.harness.databases import Databases
from tests.workers import first_view
from tests.workers.cloud_samples import AWS, CLOUDS, CloudSample
from tests.workers.failing import Failing
from tests.workers.fleet import Fleet
from tests.workers.virtual_time import RealTime, VirtualTime, virtual
from workers.process import bootstrap
from workers.process.bootstrap import build_runtime
from workers.providers.registry import connect
from workers.runtime.accounts import Connect

FAST = {
    "claim_seconds": 16.0,
    "call_timeout": 6.0,
    "connect_timeout": 2.0,
    "unknown_retry_seconds": 1.0,
    "settle_seconds": 1.0,
    "settle_gap_seconds": 0.1,
    "not_found_grace_seconds": 0.5,
    "rowless_grace_seconds": 0.3,
    "boot_timeout": 5.0,
    "launch_timeout": 5.0,
    "worker_threads": 4,
    "agent": "off",
    "provider_rate_limits": False,
}
"""Calls and claims last longer than a busy machine holds a test up."""
QUICK = {"claim_seconds": 5.0, "call_timeout": 1.5, "connect_timeout": 0.5}
"""For tests that wait until a call is given up, a claim runs out, or a lease of a few seconds is over."""


@pytest.fixture(scope="session", autouse=True)
def found_once() -> Iterator[None]:
    """What each fleet would make or find out anew: botocore's class of each client (EC2's has 800 methods, 8 ms) and its
    names of events (7 ms), the patterns of the simulated clouds' routes (3 ms), and that the database's connections are
    as they should be (five connections, 30 ms)."""
    make: Any = ClientCreator._create_client_class  # pyrefly: ignore[missing-attribute]  # its stubs name what is public
    classes: dict[str, Any] = {}

    def client_class(self: Any, service_name: str, service_model: Any) -> Any:
        if service_name not in classes:
            classes[service_name] = make(self, service_name, service_model)
        return classes[service_name]

    @cache
    def worker_login(url: str) -> connections.CurrentLogin:
        return connections.check_connections(url, connections.WORKER_SESSION)

    event_name = cache(EventAliaser(HierarchicalEmitter())._alias_event_name)  # pyrefly: ignore[missing-attribute]  # as above
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(ClientCreator, "_create_client_class", client_class)
        patch.setattr(EventAliaser, "_alias_event_name", lambda _, name: event_name(name))
        patch.setattr(BaseEventHooks, "_verify_accept_kwargs", lambda *_: None)
        patch.setattr(routing, "compile_path", cache(routing.compile_path))
        patch.setattr(bootstrap, "check_connections", lambda url, _settings: worker_login(url))
        yield


@pytest.fixture
def virtual_time(databases: Databases, database_url: str) -> Iterator[VirtualTime]:
    """The time of this test."""
    made = VirtualTime()
    with made.of(databases.owner_url):
        yield made


@pytest.fixture
def worker_settings(database_url: str, broker_url: str) -> dict[str, Any]:
    """Those of every worker of this test, but for its accounts."""
    return {**FAST, "database_url": virtual(database_url), "broker_url": broker_url}


@pytest.fixture
def sim(monkeypatch: pytest.MonkeyPatch, virtual_time: VirtualTime) -> Iterator[Control]:
    """A cloud whose VMs start and end at once."""
    sign_in(monkeypatch)
    with running(clock=virtual_time.epoch, boot_seconds=0.0, shutdown_seconds=0.0, cleanup_seconds=0.0) as control:
        yield control


def sign_in(monkeypatch: pytest.MonkeyPatch) -> None:
    """Credentials for the simulated account, and none of this machine's."""
    for name, value in {
        "AWS_ACCESS_KEY_ID": first_view.ACCESS_KEY,
        "AWS_SECRET_ACCESS_KEY": "simulated",
        "AWS_EC2_METADATA_DISABLED": "true",
        "AWS_CONFIG_FILE": "/dev/null",
        "AWS_SHARED_CREDENTIALS_FILE": "/dev/null",
    }.items():
        monkeypatch.setenv(name, value)


@pytest.fixture(scope="session")
def kept_view(databases: Databases, redis_server: str, tmp_path_factory: pytest.TempPathFactory) -> str:
    """What a fleet finds out at first about a cloud that nobody has used: asked once, shown to fleets of all tests.

    The URL of the database that keeps it.
    """
    with pytest.MonkeyPatch.context() as patch, running() as sim, databases.fresh() as database_url:
        sign_in(patch)
        config = AWS.write_config(tmp_path_factory.mktemp("first-view"), sim)
        settings = load_settings(**FAST, config=config, database_url=database_url, broker_url=redis_server)
        fleet = Fleet(build_runtime(settings), sim, observe=True, virtual_time=RealTime())
        first_view.keep(databases.owner_url)
        fleet.close()
        return database_url


@pytest.fixture(scope="session")
def accounts_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where the accounts file of the present test is. A folder of its own for each test takes a millisecond."""
    return tmp_path_factory.mktemp("accounts")


@pytest.fixture
def make_fleet(
    kept_view: str, worker_settings: dict[str, Any], sim: Control, virtual_time: VirtualTime, accounts_folder: Path
) -> Iterator[Callable[..., Fleet]]:
    """Makes worker processes over the same database and cloud. The first of the usual account is shown what was found
    out once."""
    config = AWS.write_config(accounts_folder, sim)
    fleets: list[Fleet] = []

    def make(
        *,
        observe: bool = True,
        failpoints: Path | None = None,
        connect_account: Connect = connect,
        traces: Traces | None = None,
        **changes: Any,
    ) -> Fleet:
        given = {**worker_settings, "config": config, **changes}
        settings, monotonic = read_settings(**given), virtual_time.monotonic
        build = build_runtime if failpoints is None else partial(build_failing, failpoints)
        runtime = build(settings, connect_account=connect_account, traces=traces, monotonic=monotonic)
        shown = observe and not fleets and (given["config"], given["database_url"]) == (config, virtual(kept_view))
        fleets.append(Fleet(runtime, sim, observe=observe and not shown, virtual_time=virtual_time))
        if shown:
            first_view.show(runtime)
        return fleets[-1]

    yield make
    for fleet in fleets:
        fleet.close()


@pytest.fixture
def fleet(make_fleet: Callable[..., Fleet]) -> Fleet:
    """One worker with fast settings."""
    return make_fleet()


@pytest.fixture
def quick_fleet(make_fleet: Callable[..., Fleet]) -> Fleet:
    """One worker whose calls and claims end within seconds."""
    return make_fleet(**QUICK)


@pytest.fixture
def failing() -> Failing:
    """Errors for the account to answer with, once it is connected by `failing.connect`."""
    return Failing()


@pytest.fixture(params=CLOUDS, ids=[sample.provider for sample in CLOUDS])
def cloud(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> CloudSample:
    """Each cloud in turn."""
    monkeypatch.setenv("AZURE_CLIENT_SECRET", "simulated")
    sample: CloudSample = request.param
    return sample


@pytest.fixture
def start_at_cloud(
    worker_settings: dict[str, Any], sim: Control, virtual_time: VirtualTime, accounts_folder: Path, cloud: CloudSample
) -> Iterator[Callable[..., Fleet]]:
    """Starts worker processes with an account at `cloud`; another `database_url` is a restored database."""
    fleets: list[Fleet] = []

    def make(*, observe: bool = True, **changes: Any) -> Fleet:
        config = cloud.write_config(accounts_folder, sim)
        given = {**worker_settings, "config": config, **changes}
        runtime = build_runtime(read_settings(**given), monotonic=virtual_time.monotonic)
        fleets.append(Fleet(runtime, sim, observe=observe, region=cloud.region, virtual_time=virtual_time))
        return fleets[-1]

    yield make
    for fleet in fleets:
        fleet.close()
