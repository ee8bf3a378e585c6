import threading
import time
from typing import Any

import httpx
import pytest
from botocore.exceptions import ConnectionClosedError

from cloudsim.testing import NO_TLS, Control, running
from tests.cloudsim.conftest import Clients, Launch, make_clients
from tests.cloudsim.refusals import refused


def test_an_error_is_answered_as_often_as_asked_and_the_work_is_not_done(launch: Launch, sim: Control) -> None:
    sim.fault("RunInstances", "error", code="InternalError", times=2)
    for _ in range(2):
        with refused("InternalError", 500):
            launch()
    assert sim.instances() == []
    launch()
    assert sim.faults() == []


@pytest.mark.parametrize(
    ("code", "status"),
    [("Unavailable", 503), ("UnauthorizedOperation", 403), ("InsufficientInstanceCapacity", 500), ("Anything", 400)],
)
def test_codes_travel_with_their_status(launch: Launch, sim: Control, code: str, status: int) -> None:
    sim.fault("RunInstances", "error", code=code)
    with refused(code, status):
        launch()


def test_throttling_speaks_each_services_words(ec2: Any, clients: Clients, sim: Control) -> None:
    sim.fault("*", "throttle", times=None)
    with refused("RequestLimitExceeded", 503):
        ec2.describe_instances()
    with refused("ThrottlingException", 400):
        clients("ssm").get_parameter(Name="/a")
    sim.clear_faults()
    ec2.describe_instances()


def test_a_lost_reply_does_the_work(launch: Launch, sim: Control) -> None:
    sim.fault("RunInstances", "lose_reply")
    with pytest.raises(ConnectionClosedError):
        launch(ClientToken="t")
    (truth,) = sim.instances()
    assert launch(ClientToken="t")["InstanceId"] == truth["id"]


def test_a_delay_does_the_work_late(ec2: Any, sim: Control) -> None:
    sim.fault("DescribeInstances", "delay", delay_seconds=0.2)
    started = time.monotonic()
    ec2.describe_instances()
    assert time.monotonic() - started >= 0.2


def test_a_delayed_launch_lands_though_nobody_waits_any_more(sim: Control, ami: str) -> None:
    sim.fault("RunInstances", "delay", delay_seconds=0.3)
    body = f"Action=RunInstances&Version=2016-11-15&MinCount=1&MaxCount=1&ImageId={ami}&InstanceType=g5.xlarge"
    headers = {"authorization": "AWS4-HMAC-SHA256 Credential=AKIA/20261120/us-east-1/ec2/aws4_request, Signature=0"}
    with pytest.raises(httpx.ReadTimeout):
        httpx.post(sim.url, content=body, headers=headers, timeout=0.1, trust_env=False, verify=NO_TLS)
    assert sim.instances() == []
    deadline = time.monotonic() + 5
    while not sim.instances() and time.monotonic() < deadline:
        threading.Event().wait(0.02)
    assert len(sim.instances()) == 1


def test_a_hang_ends_after_its_time_without_an_answer_or_work(launch: Launch, sim: Control) -> None:
    sim.fault("RunInstances", "hang", delay_seconds=0.1)
    with pytest.raises(ConnectionClosedError):
        launch()
    assert sim.instances() == []


def test_a_hang_outlasts_the_callers_patience(sim: Control, ec2: Any) -> None:
    sim.fault("DescribeInstances", "hang")
    with pytest.raises(httpx.ReadTimeout):
        httpx.post(
            sim.url,
            content="Action=DescribeInstances&Version=2016-11-15",
            headers={"authorization": "Credential=AKIA/20261120/us-east-1/ec2/aws4_request"},
            timeout=0.2,
            trust_env=False,
            verify=NO_TLS,
        )
    ec2.describe_instances()


def test_a_fault_may_keep_to_one_region(clients: Clients, ec2: Any, sim: Control) -> None:
    sim.fault("DescribeInstances", "error", code="Unavailable", region="us-west-2", times=None)
    ec2.describe_instances()
    for _ in range(3):
        with refused("Unavailable"):
            clients("ec2", "us-west-2").describe_instances()


def test_a_fault_may_be_a_matter_of_chance(ec2: Any, sim: Control) -> None:
    sim.fault("DescribeRegions", "error", code="Unavailable", times=None, probability=0.5)
    for _ in range(60):
        try:
            ec2.describe_regions()
        except ec2.exceptions.ClientError:
            continue
    (fault,) = sim.faults()
    assert 5 <= fault["hits"] <= 55


def test_faults_are_listed_and_cleared_one_by_one(sim: Control) -> None:
    first, second = sim.fault("RunInstances", "hang", times=3), sim.fault("boot", "delay", delay_seconds=9)
    assert [(fault["id"], fault["times"]) for fault in sim.faults()] == [(first, 3), (second, 1)]
    sim.call("DELETE", f"faults/{first}")
    assert [fault["id"] for fault in sim.faults()] == [second]
    with pytest.raises(httpx.HTTPStatusError, match="no such fault"):
        sim.call("DELETE", f"faults/{first}")


@pytest.mark.parametrize(
    "body",
    [
        {"operation": "RunInstances", "mode": "explode"},
        {"operation": "RunInstance", "mode": "error"},
        {"operation": "RunInstances", "mode": "error", "times": 0},
        {"operation": "RunInstances", "mode": "error", "color": "red"},
        {"operation": "RunInstances", "mode": "error", "region": "moon-1"},
        {"operation": "RunInstances", "mode": "error", "probability": 2},
        {"operation": "RunInstances", "mode": "delay"},
        {"operation": "boot", "mode": "lose_reply"},
        {"operation": "RunInstances", "mode": "error", "provider": "ibm"},
    ],
)
def test_senseless_faults_are_refused(sim: Control, body: dict[str, Any]) -> None:
    answer = httpx.post(f"{sim.url}/_sim/faults", json={"provider": "aws", **body}, trust_env=False, verify=NO_TLS)
    assert answer.status_code == 422
    assert answer.json()["detail"]
    assert sim.faults() == []


def test_the_end_of_the_process_ends_what_hangs() -> None:
    ended = threading.Event()

    def call(ec2: Any) -> None:
        with pytest.raises(ConnectionClosedError):
            ec2.describe_instances()
        ended.set()

    with running() as sim:
        ec2 = make_clients(sim.url)("ec2")
        sim.fault("DescribeInstances", "hang")
        caller = threading.Thread(target=call, args=(ec2,))
        caller.start()
        while not sim.calls():
            threading.Event().wait(0.01)
        started = time.monotonic()
    caller.join(5)
    assert ended.is_set()
    assert time.monotonic() - started < 2
    ec2.close()
