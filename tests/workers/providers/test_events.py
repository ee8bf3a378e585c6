"""Messages of the clouds' queues, in their true shapes through the real SDKs: where to look sooner, and acknowledged after."""

import json
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.harness.cached_settings import read_settings
from tests.workers.providers import queues
from tests.workers.providers.azure import accounts as azure_accounts
from tests.workers.providers.conftest import AZURE_TOKEN
from tests.workers.providers.gcp import accounts as gcp_accounts
from tests.workers.providers.queues import Queue
from workers.providers.aws.adapter import AwsProvider
from workers.providers.aws.settings import AwsAccount
from workers.providers.azure.adapter import AzureProvider
from workers.providers.errors import OutcomeUnknown
from workers.providers.gcp.adapter import GcpProvider
from workers.providers.ports import Provider

SUBSCRIPTION = "projects/sim-project/subscriptions/gpulease"
FAST = read_settings(call_timeout=2.0)


def aws_message(kind: str, **detail: str) -> str:
    """EC2 user guide, "EC2 Spot Instance interruption notices" and "State change events"."""
    return json.dumps(
        {
            "version": "0",
            "id": "12345678-1234-1234-1234-123456789012",
            "detail-type": kind,
            "source": "aws.ec2",
            "account": "123456789012",
            "time": "2026-01-01T00:00:00Z",
            "region": "us-east-2",
            "resources": ["arn:aws:ec2:us-east-2a:instance/i-1234567890abcdef0"],
            "detail": {"instance-id": "i-1234567890abcdef0", **detail},
        }
    )


def gcp_message(method: str, resource: str = "projects/sim-project/zones/us-central1-a/instances/gpulease-1") -> str:
    """Cloud Logging reference, `LogEntry` with an `AuditLog`."""
    return json.dumps(
        {
            "logName": "projects/sim-project/logs/cloudaudit.googleapis.com%2Fsystem_event",
            "resource": {"type": "gce_instance", "labels": {"instance_id": "1", "zone": "us-central1-a"}},
            "protoPayload": {
                "@type": "type.googleapis.com/google.cloud.audit.AuditLog",
                "serviceName": "compute.googleapis.com",
                "methodName": method,
                "resourceName": resource,
            },
        }
    )


def azure_message(operation: str, kind: str = "Microsoft.Resources.ResourceDeleteSuccess") -> str:
    """Azure Event Grid guide, "Azure resource group as an Event Grid source"."""
    vm = "/subscriptions/s/resourceGroups/gpulease/providers/Microsoft.Compute/virtualMachines/gpulease-1"
    return json.dumps(
        {"id": "1", "subject": vm, "eventType": kind, "data": {"operationName": operation, "status": "Succeeded"}}
    )


TELLING: dict[str, list[tuple[str, set[str]]]] = {
    "aws": [
        (aws_message("EC2 Spot Instance Interruption Warning", **{"instance-action": "terminate"}), {"us-east-2"}),
        (aws_message("EC2 Instance State-change Notification", state="shutting-down"), {"us-east-2"}),
        (aws_message("EC2 Instance State-change Notification", state="running"), set()),
    ],
    "gcp": [
        (gcp_message("compute.instances.preempted"), {"us-central1"}),
        (gcp_message("v1.compute.instances.delete"), {"us-central1"}),
        (gcp_message("v1.compute.instances.insert"), set()),
        (gcp_message("v1.compute.disks.delete"), set()),
        (gcp_message("v1.compute.instances.delete", "zones"), set()),
    ],
    "azure": [
        (azure_message("Microsoft.Compute/virtualMachines/delete"), {"eastus", "westeurope"}),
        (azure_message("Microsoft.Compute/virtualMachines/write", "Microsoft.Resources.ResourceWriteSuccess"), set()),
        (
            azure_message("", "Microsoft.ResourceNotifications.HealthResources.AvailabilityStatusChanged"),
            {"eastus", "westeurope"},
        ),
    ],
}
STRANGE = ["", "no JSON", "[]", "null", '{"source": "aws.ec2", "detail": 1}', '{"protoPayload": 7}', '{"subject": []}']


@pytest.fixture
def queue() -> Iterator[Queue]:
    with queues.running() as server:
        yield server


@pytest.fixture
def connected(queue: Queue, tmp_path: Path) -> Callable[..., Provider]:
    """The provider of an account whose queue is the one here, or that has none."""

    def connect(name: str, *, listening: bool = True) -> Provider:
        url = queue.url
        if name == "aws":
            address = f"{url}/123456789012/gpulease" if listening else None
            return AwsProvider(
                AwsAccount(
                    provider="aws", name="sim", regions=("us-east-2",), endpoint_url=url, events_queue_url=address
                ),
                FAST,
            )
        if name == "gcp":
            key = gcp_accounts.key_file(tmp_path, url)
            subscription = SUBSCRIPTION if listening else None
            return GcpProvider(gcp_accounts.account(url, key, events_subscription=subscription), FAST)
        address = f"{url}/gpulease-events" if listening else None
        return AzureProvider(azure_accounts.account(url, events_queue_url=address), FAST)

    return connect


@pytest.mark.parametrize("name", TELLING)
def test_a_message_tells_where_to_look_and_comes_again_until_it_is_acknowledged(
    connected: Callable[..., Provider], queue: Queue, name: str
) -> None:
    cloud = connected(name)
    queue.put(*(text for text, _ in TELLING[name]))
    first, again = cloud.events(), cloud.events()
    for events in (first, again):
        assert [set(one.regions) for one in events] == [regions for _, regions in TELLING[name]]
    cloud.acknowledge(again)
    assert queue.waiting == {}
    assert cloud.events() == []
    assert all(authorization for _, authorization in queue.asked)


@pytest.mark.parametrize("name", TELLING)
def test_what_nobody_understands_tells_nothing_and_does_not_stay(
    connected: Callable[..., Provider], queue: Queue, name: str
) -> None:
    cloud = connected(name)
    queue.put(*STRANGE)
    events = cloud.events()
    assert [set(one.regions) for one in events] == [set()] * len(STRANGE)
    cloud.acknowledge(events)
    assert queue.waiting == {}


@pytest.mark.parametrize("name", TELLING)
def test_without_a_queue_nothing_is_asked(connected: Callable[..., Provider], queue: Queue, name: str) -> None:
    assert list(connected(name, listening=False).events()) == []
    assert queue.asked == []


def test_a_pull_that_waits_in_vain_is_no_failure(connected: Callable[..., Provider], queue: Queue) -> None:
    queue.silent = True
    assert connected("gcp").events() == []


def test_an_answer_that_is_no_xml_is_no_empty_queue(connected: Callable[..., Provider], queue: Queue) -> None:
    queue.malformed = True
    with pytest.raises(OutcomeUnknown, match="no XML"):
        connected("azure").events()


def test_azures_queue_gets_a_token(connected: Callable[..., Provider], queue: Queue) -> None:
    connected("azure").events()
    assert queue.asked == [("get", f"Bearer {AZURE_TOKEN}")]
