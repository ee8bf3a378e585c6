from typing import Any

import pytest

from cloudsim.testing import Control
from tests.cloudsim.clock import ManualClock
from tests.cloudsim.conftest import Clients, Launch
from tests.cloudsim.refusals import refused


@pytest.fixture
def limited(sim: Control) -> Control:
    sim.settings(rate_limits=True)
    return sim


def test_launches_are_limited_to_5_at_once_and_2_a_second(limited: Control, launch: Launch, clock: ManualClock) -> None:
    for _ in range(5):
        launch()
    with refused("RequestLimitExceeded", 503):
        launch()
    clock.forward(1)
    launch()
    launch()
    with refused("RequestLimitExceeded"):
        launch()


def test_reads_share_100_at_once_and_20_a_second(limited: Control, ec2: Any, clock: ManualClock) -> None:
    for _ in range(50):
        ec2.describe_instances()
        ec2.describe_regions()
    with refused("RequestLimitExceeded", 503):
        ec2.describe_volumes()
    clock.forward(0.05)
    ec2.describe_instances()


def test_terminations_have_100_at_once_and_5_a_second(
    limited: Control, ec2: Any, launch: Launch, clock: ManualClock
) -> None:
    vm = launch()["InstanceId"]
    for _ in range(100):
        ec2.terminate_instances(InstanceIds=[vm])
    with refused("RequestLimitExceeded"):
        ec2.terminate_instances(InstanceIds=[vm])
    clock.forward(0.2)
    ec2.terminate_instances(InstanceIds=[vm])


def test_each_account_and_region_has_its_own_buckets(limited: Control, launch: Launch, clients: Clients) -> None:
    for _ in range(5):
        launch()
    launch(clients("ec2", key="AKIAEMPTY0"))
    with refused("RequestLimitExceeded"):
        launch()


def test_the_other_services_say_throttling(limited: Control, clients: Clients) -> None:
    quotas = clients("service-quotas")
    for _ in range(10):
        quotas.list_service_quotas(ServiceCode="ec2")
    with refused("ThrottlingException", 400):
        quotas.list_service_quotas(ServiceCode="ec2")


def test_without_limits_a_burst_passes(sim: Control, launch: Launch) -> None:
    for _ in range(200):
        launch()
    assert len(sim.instances(alive="true")) == 200
