"""What counts as delivered: the API's own answers alone, over restarts, whatever stands between and whatever the clock says."""

import json
import time
from pathlib import Path
from typing import Any

import pytest

from app.agent import gpulease_agent
from tests.agent.vms import AGENT, TOKEN, FakeApi, FakeVm, serving

PROBLEM, PAGE = "application/problem+json", "text/html"
TAKEN = (400, 413, 422)
MOST_REQUESTS = 10
"""Of a boot."""


class Boot:
    """A boot of a VM whose agent is started again before each request. `answers`: what it gets, in order."""

    def __init__(self, root: Path, answers: list[tuple[int, str]]) -> None:
        self.root, self.answers, self.posted = root, answers, list[tuple[str, Any]]()
        (root / "proc/sys/kernel/random").mkdir(parents=True)
        (root / "proc/sys/kernel/random/boot_id").write_text("boot")

    def start(self) -> gpulease_agent.Reporter:
        agent = gpulease_agent.Reporter(str(self.root), {"url": "http://api", "token": TOKEN})

        def post(what: str, body: bytes, seconds: float = 10.0) -> list[Any]:
            assert len(self.posted) < MOST_REQUESTS, "the agent does not stop"
            self.posted.append((what, json.loads(body)))
            status, kind = self.answers.pop(0) if self.answers else (204, PROBLEM)
            return [status, kind, None]

        agent._post = post  # pyrefly: ignore[method-assign]
        return agent


@pytest.fixture(autouse=True)
def _in_this_process(monkeypatch: pytest.MonkeyPatch) -> None:
    """Work that needs no child here; no GPU answers."""

    def run(work: Any, seconds: float, always: bool = False) -> Any:
        return (list(work()), None) if always else ([], None)

    monkeypatch.setattr(gpulease_agent, "isolated", run)


@pytest.mark.parametrize("kind", [PROBLEM, PAGE])
def test_a_proof_is_delivered_once_whatever_answers_before(tmp_path: Path, kind: str) -> None:
    for status in range(200, 600):
        boot = Boot(tmp_path / str(status), [(status, kind)])
        first = boot.start()
        first.state.update(proof=first.take_proof(), proved=True)
        first.save()
        for _ in range(3):  # another process each time
            agent = boot.start()
            assert agent.state["proved"]
            if agent.state["proof"] is not None and not agent.state["stopped"]:
                agent.send_proof(0.0)
        sent = [body for what, body in boot.posted if what == "proof"]
        by_api = status == 204 or kind == PROBLEM
        is_final = status == 204 or (by_api and status in (*TAKEN, 401))
        assert len(sent) == (1 if is_final else 2), (status, kind)
        assert all(body == sent[0] for body in sent)
        assert boot.start().state["proof"] is None
        assert boot.start().state["stopped"] == (by_api and status == 401)


@pytest.mark.parametrize("kind", [PROBLEM, PAGE])
def test_samples_wait_for_an_answer_of_the_api(tmp_path: Path, kind: str) -> None:
    for status in range(200, 600):
        boot = Boot(tmp_path / str(status), [(status, kind)])
        boot.start().sample()
        boot.start().sample()
        by_api = status == 204 or kind == PROBLEM
        is_final = status == 204 or (by_api and status in (*TAKEN, 401))
        counts = [len(body["samples"]) for _, body in boot.posted]
        assert counts == ([1] if by_api and status == 401 else [1, 1] if is_final else [1, 2]), (status, kind)


@pytest.mark.parametrize("run", ["missing", "a file", "read-only"])
def test_a_refused_token_stops_the_agent_that_cannot_write_its_state(tmp_path: Path, run: str) -> None:
    boot = Boot(tmp_path, [(401, PROBLEM)])
    if run == "a file":
        (tmp_path / "run").write_text("")
    elif run == "read-only":
        (tmp_path / "run/gpulease/agent.json").mkdir(parents=True)  # as root, a folder's mode stops nothing
    agent = boot.start()
    agent.state["proved"] = True
    agent.run(0.05)
    assert len(boot.posted) == 1


@pytest.mark.parametrize("jump", [-3600.0, 3600.0, -50 * 365 * 86400.0])
def test_times_are_those_of_the_api_whatever_the_clock_says(tmp_path: Path, jump: float) -> None:
    (tmp_path / "dev").mkdir()
    up = gpulease_agent.uptime()
    micro = int((up - 100) * 1e6)
    (tmp_path / "dev/kmsg").write_text(f"4,1,{micro},-;NVRM: Xid (PCI:0000:3b:00): 79, GPU has fallen off the bus.\n")
    boot = Boot(tmp_path, [])
    agent = boot.start()
    agent.state["booted"] += jump  # the clock was wrong when the agent started
    agent.state["unsent"] = [agent.take_sample()]
    date = time.strftime("%a, %d %b %Y %H:%M:%S GMT", time.gmtime())
    assert agent._is_taken([204, "text/plain", date])
    report = agent.report()
    assert report["samples"][0]["at"] == pytest.approx(time.time(), abs=30)
    assert report["xids"][0]["at"] == pytest.approx(time.time() - 100, abs=30)
    first = agent.report()["samples"]
    assert agent._is_taken([204, "text/plain", date])
    assert agent.report()["samples"] == first, "an hour of a second more or less moves nothing"


@pytest.mark.parametrize("date", [None, "", "yesterday", "Mon, 99 Foo 99999 99:99:99 GMT"])
def test_a_date_that_is_none_changes_nothing(tmp_path: Path, date: str | None) -> None:
    agent = Boot(tmp_path, []).start()
    booted = agent.state["booted"]
    assert agent._is_taken([204, "text/plain", date])
    assert agent.state["booted"] == booted


def test_what_a_driver_cannot_mean_is_left_out() -> None:
    good = {"utilization": 5, "power_w": 51.2, "throttle": 1, "ecc_uncorrected": 0, "sm_clock_mhz": 210}
    bad = {
        "utilization": 334,
        "power_w": -2,
        "throttle": 1 << 63,
        "ecc_uncorrected": 2**64 - 1,
        "sm_clock_mhz": 2**32 - 1,
    }
    assert gpulease_agent.pick({"uuid": "a", **good}, gpulease_agent.SAMPLE_FIELDS) == {"uuid": "a", **good}
    assert gpulease_agent.pick({"uuid": "a", **bad}, gpulease_agent.SAMPLE_FIELDS) == {"uuid": "a"}


def test_the_agent_over_http_repeats_a_proof_that_a_page_answered(vm: FakeVm, monkeypatch: pytest.MonkeyPatch) -> None:
    with serving(FakeApi({"proof": [200, 404, 204]}, kind=PAGE)) as api:
        vm.configure(api.url)
        assert vm.run("proof").returncode == 0
    assert len(api.bodies("proof")) == 3
    assert AGENT.exists()
