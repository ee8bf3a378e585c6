"""The service: order of reports, what happens without an API, and that the boot always goes on."""

import json
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from app.agent import gpulease_agent
from app.domain.gpus.reports import LONGEST_REPORT, parse_proof
from tests.agent.vms import SECONDS, FakeApi, FakeVm, serving


def test_the_proof_comes_first_then_samples(vm: FakeVm) -> None:
    with serving(FakeApi()) as api:
        vm.configure(api.url)
        vm.set(model="A100", utilization=97, memory_used_mib=1234)
        with vm.service("--interval", "0.1"):
            first = api.wait("samples", 1)[0]
            vm.set(model="A100", utilization=0, xids=[79])
            busy = {report["samples"][0]["gpus"][0]["utilization"] for report in api.wait("samples", 8)}
    assert api.requests[0][0] == "/v1/agent/proof"
    assert parse_proof(api.bodies("proof")[0]).boot_id == first["boot_id"]
    gpu = first["samples"][0]["gpus"][0]
    assert (gpu["utilization"], gpu["memory_used_mib"], gpu["memory_mib"]) == (97, 1234, 40960)
    assert (gpu["power_w"], gpu["temperature_c"], gpu["sm_clock_mhz"], gpu["throttle"]) == (51.2, 33, 210, 1)
    assert 0 in busy, "a later sample must show the change"
    assert [xid["code"] for xid in api.bodies("samples")[-1]["xids"]] == [79]
    assert len(api.bodies("proof")) == 1


def test_host_figures_are_shares_of_the_whole_machine(vm: FakeVm) -> None:
    with serving(FakeApi()) as api:
        vm.configure(api.url)
        vm.set(model="A100", cpu_percent=50, memory_percent=25)
        with vm.service("--interval", "0.3"):
            later = api.wait("samples", 3)[-1]["samples"][-1]
    assert later["cpu_percent"] == pytest.approx(50, abs=5)
    assert later["memory_percent"] == 25.0
    assert 0 < later["disk_percent"] <= 100


def test_unsent_samples_are_kept_and_sent_in_order(vm: FakeVm) -> None:
    with serving(FakeApi({"samples": [503, 503, 429, 204]})) as api:
        vm.configure(api.url)
        with vm.service("--interval", "0.05"):
            reports = api.wait("samples", 5)
    assert [len(report["samples"]) for report in reports[:5]] == [1, 2, 3, 4, 1]
    times = [sample["at"] for sample in reports[3]["samples"]]
    assert times == sorted(times)


def test_no_more_than_ten_samples_are_kept_over_a_restart(vm: FakeVm) -> None:
    with serving(FakeApi({"samples": [500]})) as api:
        vm.configure(api.url)
        with vm.service("--interval", "0.05"):
            reports = api.wait("samples", 12)
        assert len(reports[11]["samples"]) == 10
        with vm.service("--interval", "0.05"):
            again = api.wait("samples", len(api.bodies("samples")) + 1)[-1]
    assert len(again["samples"]) == 10
    assert len(api.bodies("proof")) == 1, "one proof for each boot"


def test_after_a_reboot_there_is_another_proof(vm: FakeVm) -> None:
    with serving(FakeApi()) as api:
        vm.configure(api.url)
        for boot in ("first", "second"):
            vm.set(model="A100", boot_id=boot)
            with vm.service("--interval", "5"):
                api.wait("samples", 1 if boot == "first" else 2)
    assert [proof["boot_id"] for proof in api.bodies("proof")] == ["first", "second"]


@pytest.mark.parametrize("refused", ["proof", "samples"])
def test_a_refused_token_stops_the_agent_for_this_boot(vm: FakeVm, refused: str) -> None:
    with serving(FakeApi({refused: [401]})) as api:
        vm.configure(api.url)
        with vm.service("--interval", "0.05") as process:
            assert process.wait(SECONDS) == 0
        asked = len(api.requests)
        with vm.service("--interval", "0.05") as process:
            assert process.wait(SECONDS) == 0
        assert len(api.requests) == asked == (1 if refused == "proof" else 2)
        vm.set(model="A100", boot_id="another boot")
        with vm.service("--interval", "5"):
            api.wait("proof", 2)


def test_refused_samples_are_dropped_not_repeated(vm: FakeVm) -> None:
    with serving(FakeApi({"samples": [422, 413, 204]})) as api:
        vm.configure(api.url)
        with vm.service("--interval", "0.05"):
            reports = api.wait("samples", 4)
    assert [len(report["samples"]) for report in reports[:4]] == [1, 1, 1, 1]


def test_a_proof_that_meets_an_error_is_sent_again(vm: FakeVm) -> None:
    with serving(FakeApi({"proof": [503, 204]})) as api:
        vm.configure(api.url)
        assert vm.run("proof").returncode == 0
    first, second = api.bodies("proof")
    assert first == second


def test_the_benchmark_runs_once_and_goes_with_a_sample(vm: FakeVm) -> None:
    with serving(FakeApi()) as api:
        vm.configure(api.url, benchmark=True)
        for boot in ("first", "second"):
            vm.set(model="L4", boot_id=boot)
            with vm.service("--interval", "5"):
                api.wait("samples", 1 if boot == "first" else 2)
    first, second = api.bodies("samples")
    assert first["benchmark"]["gpus"][0]["fp16_tflops"] == pytest.approx(78.5, rel=0.01)
    assert second["benchmark"] is None


def ready(vm: FakeVm, tmp_path: Path) -> bytes:
    """What the service tells systemd first."""
    path = str(tmp_path / "notify")
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as systemd:
        systemd.bind(path)
        systemd.settimeout(SECONDS)
        with vm.service(env={"NOTIFY_SOCKET": path}):
            return systemd.recv(100)


def test_the_boot_goes_on_after_the_proof(vm: FakeVm, tmp_path: Path) -> None:
    assert ready(vm, tmp_path) == b"READY=1"
    assert "gpulease-proof" in vm.console


def test_the_boot_goes_on_with_a_broken_configuration(vm: FakeVm, tmp_path: Path) -> None:
    (vm.root / "etc/gpulease/agent.json").write_text("{")
    assert ready(vm, tmp_path) == b"READY=1"


HANGS = """
import json, os, sys, threading
sys.path.insert(0, sys.argv[1])
import gpulease_agent as agent

def hangs():
    yield 1
    threading.Event().wait(3600)

results = [agent.isolated(hangs, 0.2), agent.isolated(lambda: iter([2]), 30)]
reading, writing = os.pipe()
stuck = os.fork()
if not stuck:
    os.setsid()
    os.write(writing, b"1")
    threading.Event().wait(3600)
os.read(reading, 1)
agent._STUCK.add(stuck)
results += [agent.isolated(lambda: iter([3]), 30), agent.isolated(lambda: iter([4]), 30, always=True)]
os.kill(stuck, 9)
print(json.dumps(results))
"""


def test_a_driver_that_hangs_is_left_behind_and_reports_still_go_out() -> None:
    """Without the fifteen seconds that the agent gives to a real driver."""
    folder = str(Path(gpulease_agent.__file__).parent)
    done = subprocess.run(
        [sys.executable, "-c", HANGS, folder], capture_output=True, text=True, check=True, timeout=SECONDS
    )
    assert json.loads(done.stdout) == [
        [[1], {"text": "no answer within 0.2 s"}],
        [[2], None],
        [[], {"text": "no earlier answer"}],
        [[4], None],
    ]


def test_a_report_of_many_gpus_stays_within_the_limit() -> None:
    agent = gpulease_agent.Reporter("/nonexistent", {"token": "t"})
    gpus = [dict.fromkeys(gpulease_agent.SAMPLE_FIELDS.split(), "x" * 30) for _ in range(8)]
    agent.state.update(unsent=[{"at": float(n), "gpus": gpus} for n in range(10)], booted=100.0)
    report = agent.report()
    assert len(gpulease_agent.canonical(report)) <= LONGEST_REPORT
    assert report["samples"][-1]["at"] == 109.0, "the oldest samples go first"


def test_show_and_usage_send_nothing(vm: FakeVm) -> None:
    with serving(FakeApi()) as api:
        vm.configure(api.url)
        vm.show()
        assert vm.run("help").returncode == 2
        assert "What leaves the VM" in vm.run("help").stderr
    assert api.requests == []
    assert vm.console == ""


def test_samples_that_the_api_would_not_store_are_not_kept(vm: FakeVm) -> None:
    """Those of a quarter of an hour ago."""
    up = gpulease_agent.uptime()
    boot = vm.show()["proof"]["boot_id"]
    state = vm.root / "run/gpulease/agent.json"
    state.parent.mkdir(parents=True)
    unsent = [{"at": at, "gpus": []} for at in (up - 1000, up - 60)]
    state.write_text(json.dumps({"boot_id": boot, "proved": True, "unsent": unsent, "booted": 1_000.0}))
    with serving(FakeApi()) as api:
        vm.configure(api.url)
        assert vm.run("sample").returncode == 0
    (report,) = api.bodies("samples")
    assert report["samples"][0]["at"] == pytest.approx(1_000 + up - 60, abs=0.001)
    assert len(report["samples"]) == 2


def test_a_gpu_without_a_uuid_is_sampled_by_its_place(vm: FakeVm) -> None:
    """A sample needs a name for each GPU. A proof must not have an invented one: bad GPUs are remembered by it."""
    vm.set(model="A100", count=2, gpus={"1": {"uuid": ""}})
    shown = vm.show()
    assert shown["sample"]["gpus"][1]["uuid"] == "index-1"
    assert "uuid" not in shown["proof"]["gpus"][1]
