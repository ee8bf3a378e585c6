"""One simulation per pytest process, started over for each test; time stands until the test moves it."""

from collections.abc import Callable, Iterator
from functools import cache
from typing import Any

import boto3
import pytest
from botocore.config import Config

from cloudsim.testing import Control, running
from tests.cloudsim import answers
from tests.cloudsim.clock import START, ManualClock

Clients = Callable[..., Any]
Launch = Callable[..., dict[str, Any]]

ONE_TRY = Config(retries={"mode": "standard", "total_max_attempts": 1}, connect_timeout=2, read_timeout=20)
AMI_PARAMETER = "/aws/service/deeplearning/ami/x86_64/base-oss-nvidia-driver-gpu-ubuntu-22.04/latest/ami-id"


def make_clients(url: str) -> Clients:
    """boto3 clients by service, region and access key; every answer they get is checked against the model."""

    @cache
    def client(service: str, region: str = "us-east-1", key: str = "AKIATEST") -> Any:
        made: Any = boto3.client(  # pyrefly: ignore[no-matching-overload]
            service,
            endpoint_url=url,
            region_name=region,
            aws_access_key_id=key,
            aws_secret_access_key="none",
            config=ONE_TRY,
        )
        made.meta.events.register("before-parse", answers.check)
        return made

    return client


@pytest.fixture(scope="session")
def shared_clock() -> ManualClock:
    return ManualClock()


@pytest.fixture(scope="session")
def shared_sim(shared_clock: ManualClock) -> Iterator[Control]:
    with running(clock=shared_clock) as sim:
        yield sim


@pytest.fixture(scope="session")
def clients(shared_sim: Control) -> Clients:
    return make_clients(shared_sim.url)


@pytest.fixture
def clock(shared_clock: ManualClock) -> ManualClock:
    shared_clock.now = START
    return shared_clock


@pytest.fixture
def sim(shared_sim: Control, clock: ManualClock) -> Control:
    shared_sim.reset()
    return shared_sim


@pytest.fixture
def ec2(sim: Control, clients: Clients) -> Any:
    return clients("ec2")


@pytest.fixture
def ami(clients: Clients) -> str:
    return str(clients("ssm").get_parameter(Name=AMI_PARAMETER)["Parameter"]["Value"])


@pytest.fixture
def launch(ec2: Any, ami: str) -> Launch:
    """Launches one VM, with other RunInstances parameters on top; answers the instance."""

    def run(client: Any = ec2, **parameters: Any) -> dict[str, Any]:
        wanted = {"ImageId": ami, "InstanceType": "g5.xlarge", "MinCount": 1, "MaxCount": 1, **parameters}
        instance: dict[str, Any] = client.run_instances(**wanted)["Instances"][0]
        return instance

    return run
