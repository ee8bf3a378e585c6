"""What every test may use: a real PostgreSQL and a real Redis, fresh for each test.

pytest-socket (see pyproject.toml) refuses connections to anything but loopback.

Both servers start at first use, one each per pytest process. `GPULEASE_DATABASE_URL` and `GPULEASE_BROKER_URL`
name other servers to use instead; of a PostgreSQL server only databases named `gpulease_test_…` are touched.
"""

import asyncio
import gc
import os
import secrets
import tempfile
from collections.abc import AsyncIterator, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
import redis
import structlog
from hypothesis import HealthCheck, settings
from xdist import is_xdist_worker
from xdist.remote import Producer
from xdist.scheduler import LoadScopeScheduling

from app.local import embedded_postgres, embedded_redis
from app.local.leftovers import MARKER
from app.local.ports import free_port
from app.settings.memory import settle_memory
from tests.harness import sessions
from tests.harness.databases import Databases
from tests.harness.durations import SECONDS
from tests.harness.forks import ForkServer, fork_server
from tests.harness.kept_connections import KeptConnections
from tests.harness.temporary_files import keep_in_memory

keep_in_memory()
EXTERNAL_DATABASE_URL = os.environ.pop("GPULEASE_DATABASE_URL", None)
EXTERNAL_BROKER_URL = os.environ.pop("GPULEASE_BROKER_URL", None)


settings.register_profile(
    "same-every-run",
    derandomize=True,
    database=None,
    # how fast the machine is must not decide
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture],
    max_examples=100,
)
settings.load_profile("same-every-run")

# what the program logs within a test is shown when it fails; Rich's tracebacks would take longer than the test
structlog.configure(
    processors=[
        *structlog.get_config()["processors"][:-1],
        structlog.dev.ConsoleRenderer(exception_formatter=structlog.dev.plain_traceback),
    ]
)


@pytest.fixture(autouse=True)
def _logs_outlive_captures(request: pytest.FixtureRequest) -> None:
    """A logger keeps the stream that it wrote to first, and a stream of `capsys` is closed in later tests."""
    if "capsys" in request.fixturenames:
        request.getfixturevalue("monkeypatch").setattr(structlog, "configure", lambda **_: None)


WITH_STACKS = {
    "tests/e2e/": "stacks",
    "tests/three_clouds/": "stacks",
    "tests/local/": "stacks",
    "tests/browser/": "dashboard",
}
"""Tests that start whole stacks, those of a name one after the other in one process: they take longest, so they come first."""
WAITING = "tests/workers/"
"""Where simulated clouds are waited for two thirds of the time. Other tests keep a core busy."""
MOST_CORES = 4
"""With more of them in use, the longest files alone decide how long a run takes."""
FORK_SERVER = "GPULEASE_TEST_FORK_SERVER"
"""The socket of the one that all processes of this run share."""
_UNTIL_END = pytest.StashKey[ExitStack]()
STACK_SECONDS = 600
"""A test's time-out counts the start of its stack."""


def with_stack(nodeid: str) -> str | None:
    """The name of the tests with stacks that this one belongs to."""
    return next((name for folder, name in WITH_STACKS.items() if nodeid.startswith(folder)), None)


class ByFile(LoadScopeScheduling):
    """Files share out the processes; tests with stacks go together."""

    def _split_scope(self, nodeid: str) -> str:
        return with_stack(nodeid) or nodeid.partition("::")[0]


def pytest_xdist_auto_num_workers() -> int:
    """What `-n auto` means: two for each core, and one whose stacks mostly wait. Each takes CPU time (docs/decisions/0070)."""
    return 1 + 2 * min(os.cpu_count() or 1, MOST_CORES)


def pytest_xdist_make_scheduler(config: pytest.Config, log: Producer) -> ByFile:
    """Asked by pytest-xdist when there are several processes."""
    return ByFile(config, log)


# imports and tests found stay until the end; looking through them again and again took a quarter of the time
gc.disable()


def pytest_collection_finish() -> None:
    """From here on only what tests leave is collected, and rarely: there is memory enough."""
    settle_memory()
    gc.set_threshold(100_000, 20, 20)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Begins with the longest, which get more time. Files that wait and files that calculate alternate, so that neither
    all processes wait at once nor all of them want a core."""
    places: dict[str, float] = {}
    files = sorted({_file(item) for item in items}, key=lambda file: (-SECONDS.get(file, 0), file))
    for waiting in (True, False):
        alike = [file for file in files if not with_stack(file) and file.startswith(WAITING) == waiting]
        places |= {file: n / len(alike) for n, file in enumerate(alike)}
    for item in items:
        if with_stack(item.nodeid):
            item.add_marker(pytest.mark.timeout(STACK_SECONDS))
    # tests with stacks have no place and come first
    items.sort(key=lambda item: places.get(_file(item), -1.0))


def _file(item: pytest.Item) -> str:
    return item.nodeid.partition("::")[0]


@pytest.hookimpl(tryfirst=True)
def pytest_sessionstart(session: pytest.Session) -> None:
    """Only the process that starts the others ends what earlier runs left: several at once would end it twice."""
    if is_xdist_worker(session):
        return
    sessions.end_dead()
    if session.config.getoption("numprocesses", None):
        session.config.stash[_UNTIL_END] = finally_ = ExitStack()
        folder = Path(finally_.enter_context(tempfile.TemporaryDirectory(prefix="gpulease-forks-")))
        os.environ[FORK_SERVER] = str(finally_.enter_context(fork_server(folder)).path)


def pytest_sessionfinish(session: pytest.Session) -> None:
    """The other processes have ended."""
    finally_ = session.config.stash.get(_UNTIL_END, None)
    if finally_ is not None:
        finally_.close()


@pytest.fixture(scope="session")
def server_directory() -> Iterator[Path]:
    """A short-named folder of this pytest process for what servers keep."""
    with sessions.folder() as folder:
        os.environ[MARKER] = str(folder)
        yield folder


@pytest.fixture(scope="session")
def forks(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ForkServer]:
    """Forks Python programs, which then need no imports. All pytest processes of a run share it."""
    shared = os.environ.get(FORK_SERVER)
    if shared is not None:
        yield ForkServer(Path(shared))
        return
    with fork_server(tmp_path_factory.getbasetemp()) as server:
        yield server


@pytest.fixture(scope="session")
def postgres_server(server_directory: Path) -> Iterator[str]:
    """The superuser's URL of a running server."""
    if EXTERNAL_DATABASE_URL is not None:
        yield EXTERNAL_DATABASE_URL
        return
    forgetful = {**embedded_postgres.SETTINGS, **embedded_postgres.FORGETFUL}
    cluster = embedded_postgres.EmbeddedCluster(
        server_directory / "postgres", free_port(), secrets.token_hex(16), forgetful
    )
    with embedded_postgres.running(cluster):
        yield cluster.admin_url


@pytest.fixture(scope="session", autouse=True)
async def kept_connections() -> AsyncIterator[KeptConnections]:
    """Connections of this process to PostgreSQL, beyond a test."""
    kept = KeptConnections(asyncio.get_running_loop())
    with kept.in_use():
        yield kept
        await kept.close_async()


@pytest.fixture(scope="session")
def databases(postgres_server: str, kept_connections: KeptConnections) -> Iterator[Databases]:
    """The migrated database of this pytest process."""
    made = Databases(postgres_server, kept_connections)
    yield made
    made.close()


@pytest.fixture
def database_url(databases: Databases) -> Iterator[str]:
    """`postgresql://…` of a migrated database as new. The program's invariants are checked after the test."""
    with databases.fresh() as url:
        yield url


@pytest.fixture(scope="session")
def redis_server(server_directory: Path) -> Iterator[str]:
    """The URL of a running Redis."""
    if EXTERNAL_BROKER_URL is not None:
        yield EXTERNAL_BROKER_URL
        return
    server = embedded_redis.EmbeddedRedis(server_directory / "redis", free_port(), secrets.token_hex(16))
    with embedded_redis.running(server):
        yield server.url


@pytest.fixture(scope="session")
def kept_redis(redis_server: str) -> Iterator[redis.Redis]:
    """One client for all tests: a new one costs a millisecond, most of it for its connection."""
    with redis.Redis.from_url(redis_server) as client:
        yield client


@pytest.fixture
def broker_url(redis_server: str, kept_redis: redis.Redis) -> str:
    """`redis://…` of an empty Redis."""
    kept_redis.flushall()
    return redis_server
