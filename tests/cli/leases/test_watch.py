import contextlib
import io
import json
import os
import pty
import signal
import threading
from collections.abc import Callable, Iterator
from datetime import timedelta

import pytest
from rich.console import Console

from app.cli.client import Api
from app.cli.endpoint import Endpoint
from app.cli.leases.watch import Goal, Pace, Poller, follow
from app.cli.leases.watch_views import Snapshot, picture
from app.cli.render import times
from app.cli.session import Connection, Session
from tests.cli.conftest import Cli
from tests.cli.fake_api import (
    ACTIVE,
    ALL_PARTS,
    BOOTING,
    NO_CAPACITY,
    PROVISIONING,
    REFUSED_ATTEMPT,
    RELEASED,
    RELEASING,
    TENANT_KEY,
    Answer,
    FakeApi,
    Json,
    a_lease,
    problem,
)

FAST = Pace(fastest=0.01, slowest=0.02)
LIFE = (PROVISIONING, BOOTING, ACTIVE, RELEASING, RELEASED)


@pytest.fixture
def client(api: FakeApi) -> Iterator[Api]:
    with Api(Endpoint(api.url, TENANT_KEY), note=list[str]().append) as opened:
        yield opened


def _follow(client: Api, *, until: Goal = "terminal", as_json: bool = False, timeout: int | None = 20) -> int:
    with Session(Connection(as_json=as_json)) as session:
        return follow(session, client, "lease_00000000000000000000000001", until=until, timeout=timeout, pace=FAST)


def test_a_watch_shows_every_state_and_ends_with_the_lease(
    api: FakeApi, client: Api, capsys: pytest.CaptureFixture[str]
) -> None:
    api.add(a_lease(), *LIFE, attempts=[REFUSED_ATTEMPT])
    assert _follow(client) == 0
    lines = capsys.readouterr().out.splitlines()
    states = [line.split()[1] for line in lines if line.startswith("2026-")]
    assert states == ["queued", *(change["state"] for change in LIFE)]
    assert any("InsufficientInstanceCapacity" in line for line in lines)
    assert "connect: ssh ubuntu@203.0.113.9" in lines
    assert len(lines) == len(set(lines))


def test_until_active_ends_at_a_usable_lease(api: FakeApi, client: Api) -> None:
    api.add(a_lease(), PROVISIONING, BOOTING, ACTIVE)
    assert _follow(client, until="active") == 0


@pytest.mark.parametrize(("until", "end"), [("active", NO_CAPACITY), ("terminal", NO_CAPACITY), ("active", RELEASED)])
def test_a_lease_that_misses_the_goal_is_exit_code_1(
    api: FakeApi, client: Api, until: Goal, end: dict[str, object]
) -> None:
    api.add(a_lease(), PROVISIONING, end)
    assert _follow(client, until=until) == 1


def test_json_has_one_line_for_each_change(api: FakeApi, client: Api, capsys: pytest.CaptureFixture[str]) -> None:
    api.add(a_lease(), PROVISIONING, {}, BOOTING, ACTIVE, RELEASED)
    _follow(client, as_json=True)
    versions = [json.loads(line)["state"] for line in capsys.readouterr().out.splitlines()]
    assert versions[0] == "queued"
    assert versions[-1] == "released"
    assert set(versions) == {"queued", "provisioning", "booting", "active", "released"}


def test_an_unchanged_lease_is_asked_for_by_etag(api: FakeApi, client: Api) -> None:
    api.add(a_lease())
    assert _follow(client, timeout=0) == 1
    assert not api.asked
    _follow(client, timeout=1)
    first, *later = api.calls("GET", "/v1/leases/lease_00000000000000000000000001")
    assert "if-none-match" not in first.headers
    assert later
    assert all("if-none-match" in asked.headers for asked in later)


def test_the_cost_is_read_again_though_the_etag_stays(api: FakeApi, client: Api) -> None:
    now = times.now()
    lease = api.add(a_lease(**ACTIVE))
    poller = Poller(client, "lease_00000000000000000000000001")
    assert poller.poll(now).lease["cost"]["accrued"] == "1.25"
    lease["cost"] = {**lease["cost"], "accrued": "2.50"}
    assert poller.poll(now).lease["cost"]["accrued"] == "1.25"
    assert poller.poll(now + timedelta(seconds=10)).lease["cost"]["accrued"] == "2.50"


def test_a_time_out_says_that_the_lease_goes_on(api: FakeApi, client: Api, capsys: pytest.CaptureFixture[str]) -> None:
    api.add(a_lease())
    assert _follow(client, until="active", timeout=0) == 1
    assert "the lease continues" in capsys.readouterr().err


def test_server_trouble_is_shown_once_and_survived(
    api: FakeApi, client: Api, capsys: pytest.CaptureFixture[str]
) -> None:
    api.add(a_lease(), PROVISIONING, *LIFE[1:])
    trouble = problem(503, "unavailable", "the database is away")
    busy = Answer(429, {"code": "rate_limited"}, {"Retry-After": "0", "Content-Type": "text/plain"})
    api.next_answers.extend([Answer(200, a_lease()), Answer(200, {"items": []}), trouble, trouble, trouble, busy])
    assert _follow(client) == 0
    errors = capsys.readouterr().err
    assert errors.count("unavailable; retrying") == 1
    assert errors.count("returned 429") == 1
    assert "the API responds again" in errors


def test_a_watch_goes_on_through_a_restart_of_the_api(capsys: pytest.CaptureFixture[str]) -> None:
    api, codes = FakeApi(), list[int]()
    api.add(a_lease())
    with api.serving() as url:
        client = Api(Endpoint(url, TENANT_KEY), note=list[str]().append)
        watching = threading.Thread(target=lambda: codes.append(_follow(client)))
        watching.start()
        _until(lambda: len(api.asked) > 3)
    _until(lambda: "connection refused" in capsys.readouterr().err)
    api.leases["lease_00000000000000000000000001"] |= RELEASED
    with api.serving(), client:
        watching.join()
    assert codes == [0]


def _until(holds: Callable[[], bool]) -> None:
    tick = threading.Event()
    for _ in range(1000):
        if holds():
            return
        tick.wait(0.01)
    raise AssertionError("it never came true")


def test_before_the_first_answer_trouble_is_an_error(api: FakeApi, cli: Cli) -> None:
    api.next_answers.append(problem(503, "unavailable", "the database is away"))
    assert cli("lease", "watch", "lease_00000000000000000000000001").exit_code == 1
    assert cli("lease", "watch", "lease_00000000000000000000000099").exit_code == 1


def test_create_and_watch_in_one_command(api: FakeApi, cli: Cli) -> None:
    api.new_course = (PROVISIONING, ACTIVE)
    result = cli("lease", "create", "--gpu", "T4", "--ttl", "1h", "--watch", "--json")
    assert result.exit_code == 0, result.output
    states = [json.loads(line)["state"] for line in result.stdout.splitlines()]
    assert states == ["queued", "provisioning", "active"]


def test_release_and_watch_in_one_command(api: FakeApi, cli: Cli) -> None:
    api.add(a_lease(1), {}, RELEASED)
    result = cli("lease", "release", "train-1", "--watch")
    assert result.exit_code == 0, result.output
    assert result.stdout.splitlines()[-1].endswith("released")


def test_the_picture_shows_states_tries_connection_and_cost() -> None:
    lease = a_lease(1, **PROVISIONING | BOOTING | ACTIVE)
    console = Console(width=120, record=True, file=io.StringIO())
    console.print(picture(Snapshot(lease, (REFUSED_ATTEMPT,))))
    text = console.export_text()
    for fact in ("queued", "2 s", "provisioning", "28 s", "InsufficientInstanceCapacity", "ssh ubuntu@", "1.25 USD"):
        assert fact in text


def test_in_a_terminal_the_picture_ends_with_the_last_state(api: FakeApi, cli: Cli) -> None:
    api.add(a_lease(), PROVISIONING, BOOTING, ACTIVE, attempts=[REFUSED_ATTEMPT])
    reader, writer = pty.openpty()
    with cli.fork(
        "lease",
        "watch",
        "lease_00000000000000000000000001",
        "--until",
        "active",
        stdout=writer,
        environ={"TERM": "xterm"},
    ) as process:
        os.close(writer)
        shown = _read_to_end(reader)
    assert process.returncode == 0
    assert "provisioning" in shown
    last_picture = shown.rpartition("train-1")[2]
    for fact in ("✓", "active", "connect", "ssh ubuntu@203.0.113.9"):
        assert fact in last_picture


def _read_to_end(terminal: int) -> str:
    content = bytearray()
    with contextlib.suppress(OSError):  # Linux says so when the other side of a terminal has gone
        while chunk := os.read(terminal, 65536):
            content += chunk
    os.close(terminal)
    return content.decode()


RUNNING = {**PROVISIONING, **BOOTING, "cost": {"accrued": "0", "price_per_hour": "21.96", **ALL_PARTS}}


@pytest.mark.parametrize(
    ("changes", "goes_on"),
    [
        ({}, "continues: `gpulease lease release lease_00000000000000000000000001` ends it"),
        (RUNNING, "continues and costs 21.96 USD/h: `gpulease lease release lease_00000000000000000000000001` ends it"),
        ({**RUNNING, **RELEASING}, "continues to end: `gpulease lease watch lease_00000000000000000000000001`"),
    ],
)
def test_ctrl_c_ends_a_watch_and_says_what_goes_on(api: FakeApi, cli: Cli, changes: Json, goes_on: str) -> None:
    api.add(a_lease(**changes))
    process = cli.fork("lease", "watch", "lease_00000000000000000000000001")
    assert process.stdout is not None
    assert "queued" in process.stdout.readline()
    process.send_signal(signal.SIGINT)
    _, errors = process.communicate(timeout=20)
    assert process.returncode == 130
    assert errors == f"lease_00000000000000000000000001 {goes_on}\ninterrupted\n"
