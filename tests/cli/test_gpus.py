"""What agents report of GPUs: `top`, `gpus --leased`, `lease metrics`, and the rows of `lease show`."""

import csv
import io
import json
from datetime import timedelta
from typing import Any

import pytest
from rich.console import Console

from app.cli.gpus import readings, use
from app.cli.gpus.top_views import Screen, summary, urgency
from app.cli.render import times
from app.observability.gpu_exposition import exposition
from tests.cli.conftest import Cli
from tests.cli.fake_api import ACTIVE, BOOTING, PROVISIONING, TENANT_ID, Answer, FakeApi, Json, a_lease, problem
from tests.cli.terminal import Terminal

FINDING: Json = {"code": "xid_79", "severity": "fatal", "gpu": "GPU-1", "message": "The GPU fell off the bus."}
FLEET = "GET", "/v1/metrics/fleet"
SCRAPE = "/v1/metrics/leases"
TEXT = """\
# HELP DCGM_FI_DEV_GPU_TEMP GPU temperature
# TYPE DCGM_FI_DEV_GPU_TEMP gauge
DCGM_FI_DEV_GPU_TEMP{gpu="0",UUID="GPU-0",lease_id="lease_00000000000000000000000001",lease="a \\"b\\", {c}"} 61
DCGM_FI_DEV_GPU_TEMP{gpu="1",UUID="GPU-1",lease_id="lease_00000000000000000000000001",lease="x"} 66.5
DCGM_FI_DEV_POWER_USAGE{gpu="0",UUID="GPU-0",lease_id="lease_00000000000000000000000001"} 900
DCGM_FI_DEV_POWER_USAGE{gpu="1",UUID="GPU-1",lease_id="lease_00000000000000000000000001"} 899.5
DCGM_FI_DEV_POWER_USAGE{gpu="0",UUID="GPU-9",lease_id="lease_00000000000000000000000002"} 52.2
DCGM_FI_DEV_GPU_UTIL{gpu="0",UUID="GPU-0",lease_id="lease_00000000000000000000000001"} 93
other_metric 3
"""


def _ago(**span: float) -> str:
    return times.rfc3339(times.now() - timedelta(**span))


def _active(number: int, **changes: Any) -> Json:
    known: Json = {
        "utilization": {"gpu_percent": 93, "memory_percent": 40, "at": _ago(seconds=20)},
        "health": {"status": "healthy", "since": _ago(hours=1), "findings": []},
        "idle": None,
        "proof": {
            "status": "passed",
            "at": _ago(hours=1),
            "via": "network",
            "driver_version": "570.124",
            "cuda_version": "12.8",
            "gpus": [{"uuid": f"GPU-{n}", "model": "NVIDIA A100-SXM4-40GB", "memory_mib": 40960} for n in range(8)],
            "findings": [],
        },
    }
    return a_lease(number, **{**PROVISIONING, **BOOTING, **ACTIVE, **known, **changes})


def _idle(number: int) -> Json:
    idle = {"since": _ago(minutes=48), "ends_at": times.rfc3339(times.now() + timedelta(minutes=12))}
    return _active(number, idle=idle, utilization={"gpu_percent": 0, "memory_percent": 1, "at": _ago(seconds=20)})


def _failing(number: int) -> Json:
    return _active(number, health={"status": "failing", "since": _ago(minutes=5), "findings": [FINDING]})


@pytest.fixture
def leases(api: FakeApi) -> FakeApi:
    for lease in (_active(1), _idle(2), _failing(3)):
        api.add(lease)
    return api


def _served(api: FakeApi) -> None:
    """The next call but one is the scrape: leases first."""
    page = {"items": list(api.leases.values()), "next_cursor": None}
    api.next_answers.extend([Answer(200, page), Answer(200, None, {"Content-Type": "text/plain"}, raw=TEXT.encode())])


def test_readings_are_summed_up_per_lease() -> None:
    found = readings.parse(TEXT)
    assert {lease: (each.hottest, each.power) for lease, each in found.items()} == {
        "lease_00000000000000000000000001": (66.5, 1799.5),
        "lease_00000000000000000000000002": (None, 52.2),
    }
    assert readings.parse("DCGM_FI_DEV_GPU_TEMP{} 3\nDCGM_FI_DEV_GPU_TEMP 3\n") == {}


def test_the_apis_own_text_is_read() -> None:
    gpu = {"uuid": "GPU-0", "utilization": 5.0, "memory_used_mib": 3.0, "memory_mib": 40960.0, "power_w": 51.2}
    rest = {"temperature_c": 33.0, "sm_clock_mhz": 210.0, "ecc_uncorrected": 0, "remap_failed": False, "throttle": None}
    names = ("provider", "region", "gpu_model", "instance_type")
    row: Json = {
        **dict.fromkeys(names, "x"),
        "lease_id": "lease_00000000000000000000000001",
        "tenant_id": TENANT_ID,
        "metric_labels": {"name": 'a "quoted", {name}', "uuids": ["GPU-0"]},
        "gpu_count": 1,
        "proven": None,
        "sample": {"gpus": [{**gpu, **rest}], "cpu_percent": 1, "memory_percent": 2, "disk_percent": 3},
        "xids": [],
        "age_seconds": 5.0,
    }
    found = readings.parse(exposition([row]))
    assert (found["lease_00000000000000000000000001"].hottest, found["lease_00000000000000000000000001"].power) == (
        33.0,
        51.2,
    )


def test_top_without_a_terminal_prints_one_table(leases: FakeApi, cli: Cli) -> None:
    _served(leases)
    result = cli("top")
    assert result.exit_code == 0, result.output
    head, _, *rows = result.stdout.splitlines()
    assert head == "3 leases, 24 GPUs, 62 % used on average, 1 lease idle"
    assert [row.split()[0] for row in rows] == ["train-3", "train-2", "train-1"]
    assert "failing" in rows[0]
    assert "48 min" in rows[1]
    for part in ("8 x A100", "93 %", "40 %", "66 °C", "1.8 kW", "healthy"):
        assert part in rows[2]


def test_top_needs_no_readings(leases: FakeApi, cli: Cli) -> None:
    leases.refusals["GET", SCRAPE] = problem(403, "forbidden", "no")
    rows = json.loads(cli("top", "--json").stdout)["items"]
    assert [(row["name"], row["hottest_c"], row["power_w"]) for row in rows] == [
        ("train-3", None, None),
        ("train-2", None, None),
        ("train-1", None, None),
    ]
    assert rows[2]["utilization"]["gpu_percent"] == 93


def test_top_without_leases_says_so(api: FakeApi, cli: Cli) -> None:
    _served(api)
    assert "no leases with a VM" in cli("top", "--once").stderr


def test_top_on_a_terminal_is_live_until_q(leases: FakeApi, cli: Cli) -> None:
    _served(leases)
    with Terminal(cli, ["top", "--interval", "0.2"]) as terminal:
        terminal.wait_for("q to quit")
        terminal.wait_for("1.8 kW")
        leases.leases["lease_00000000000000000000000001"] = {
            **leases.leases["lease_00000000000000000000000001"],
            "name": "renamed-meanwhile",
            "version": 2,
        }
        terminal.wait_for("renamed-meanw")
        terminal.type("q")
        code, errors = terminal.finish()
    assert code == 0, errors
    assert len(leases.calls("GET", SCRAPE)) == 1, "samples come once a minute"


@pytest.mark.parametrize(("width", "height"), [(80, 24), (80, 6), (30, 5), (1, 1)])
def test_the_screen_fits_and_says_what_is_missing(width: int, height: int) -> None:
    screen = Screen()
    screen.away("refused", times.now())
    rows = [_active(n, name=f"{'n' * 40}-{n}", hottest_c=61.0, power_w=2400.0) for n in range(40)]
    console = Console(width=width, height=height, file=io.StringIO())
    with console.capture() as before:
        console.print(screen)
    screen.show(sorted(rows, key=urgency))
    with console.capture() as after:
        console.print(screen)
    assert "API UNREACHABLE"[:width] in before.get() or width == 1
    assert all(len(line) <= width for line in after.get().splitlines())
    if width >= 80:
        assert " more" in after.get()
        assert "2.4 kW" in after.get()


def test_samples_that_were_refused_are_named_when_there_are_any() -> None:
    item = _active(1)
    assert use.utilization(item) == "93 % of the GPUs, 40 % of their memory, 20 s ago"
    for count, words in ((0, ""), (1, ", 1 sample refused"), (29, ", 29 samples refused")):
        refused = {**item, "utilization": {**item["utilization"], "refused": count}}
        assert use.utilization(refused) == f"93 % of the GPUs, 40 % of their memory, 20 s ago{words}"


def test_the_sums_leave_unknown_leases_out_of_the_mean() -> None:
    assert summary([_active(1, utilization=None)]).plain == "1 lease, 8 GPUs"
    assert summary([_active(1, utilization=None), _active(2)]).plain == "2 leases, 16 GPUs, 93 % used on average"


def test_leased_gpus_are_counted_and_shown_one_by_one(api: FakeApi, cli: Cli) -> None:
    lease = {
        "lease_id": "lease_00000000000000000000000001",
        "name": "train-1",
        "gpu_model": "A100",
        "state": "active",
        "health": "failing",
    }
    api.documents[FLEET] = {
        "gpus_paid": 4,
        "gpus_in_use": 2,
        "gpus_idle": 1,
        "gpus_unknown": 1,
        "idle_cost_per_hour": "2.745",
        "leases": [{**lease, "gpus": [98, 97, 0, None]}],
    }
    shown = cli("gpus", "--leased").stdout
    for part in ("paid for   4 GPUs", "idle       1 GPU ", "idle cost  2.745 USD/h", "98 97 0 ?", "failing"):
        assert part in shown
    rows = list(csv.DictReader(io.StringIO(cli("gpus", "--leased", "--csv").stdout)))
    assert [(row["GPU"], row["GPU_PERCENT"]) for row in rows] == [("0", "98"), ("1", "97"), ("2", "0"), ("3", "")]
    assert json.loads(cli("gpus", "--leased", "--json").stdout) == api.documents[FLEET]


def test_the_series_of_a_lease_are_rows_without_gaps(api: FakeApi, cli: Cli) -> None:
    api.add(_active(1))
    series = ("memory_percent", "power_w", "temperature_c", "sm_clock_mhz", "cpu_percent", "host_memory_percent")
    api.documents["GET", "/v1/leases/lease_00000000000000000000000001/metrics"] = {
        "lease_id": "lease_00000000000000000000000001",
        "from": "2026-06-01T10:00:00Z",
        "to": "2026-06-01T10:02:00Z",
        "step_seconds": 60,
        "at": ["2026-06-01T10:00:00Z", "2026-06-01T10:01:00Z"],
        "series": {"gpu_percent": [None, 93], "disk_percent": [None, None], **{name: [None, None] for name in series}},
        "gpus": [],
    }
    rows = cli("lease", "metrics", "train-1", "--since", "2h", "--step", "1m").stdout.splitlines()
    assert rows[0].split()[:3] == ["AT", "GPU", "PERCENT"]
    assert [row.split()[:2] for row in rows[1:]] == [["2026-06-01T10:01:00Z", "93"]]
    (asked,) = api.calls("GET", "/v1/leases/lease_00000000000000000000000001/metrics")
    assert asked.query["step"] == ["60"]
    begin = times.parse_time(asked.query["from"][0])
    assert begin is not None
    assert timedelta(hours=1, minutes=59) < times.now() - begin < timedelta(hours=2, minutes=5)


def test_a_lease_shows_its_check_health_use_and_idle_time(leases: FakeApi, cli: Cli) -> None:
    healthy = cli("lease", "show", "train-1").stdout
    assert "passed by network, driver 570.124, CUDA 12.8, 8 GPUs" in healthy
    assert "93 % of the GPUs, 40 % of their memory" in healthy
    assert "idle" not in healthy
    assert "for 48 min" in cli("lease", "show", "train-2").stdout
    assert "failing for 5 min" in cli("lease", "show", "train-3").stdout
    assert "xid_79: The GPU fell off the bus. (GPU-1)" in cli("lease", "show", "train-3").stdout
    assert "GPU %" in cli("lease", "list").stdout
