"""Once Azure has a VM under our name, no failure of a read that follows says that nothing was done."""

import json
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any, cast

import pytest
from azure.core.exceptions import ServiceRequestError
from urllib3.exceptions import NewConnectionError

from app.domain.leases import VmState
from tests.harness.cached_settings import read_settings
from tests.workers.providers.azure.accounts import SECURITY_GROUPS, account
from tests.workers.providers.azure.answering import Answer, answering
from tests.workers.providers.azure.specs import REGION, spec
from workers.providers import errors
from workers.providers.azure import launch
from workers.providers.azure.adapter import AzureProvider
from workers.providers.azure.clients import Group

VM_ID = "00000000-0000-4000-8000-000000000000"
READS_THAT_FAIL = {
    "throttled": (429, "TooManyRequests"),
    "no right to read": (403, "AuthorizationFailed"),
    "no such group": (404, "ResourceGroupNotFound"),
    "no capacity": (409, "AllocationFailed"),
    "broken": (500, "InternalServerError"),
}


@pytest.fixture
def answer() -> Iterator[Answer]:
    with answering() as answer:
        yield answer


@pytest.fixture
def azure(answer: Answer) -> AzureProvider:
    return AzureProvider(account(answer.url, network_security_group_ids=SECURITY_GROUPS), read_settings())


def record(azure: AzureProvider, provisioning: str = "Creating", **properties: Any) -> dict[str, Any]:
    """The VM of our parameters, as Azure shows it."""
    params = azure.plan(spec())
    hardware = {"vmSize": spec().instance_type}
    shown = {"vmId": VM_ID, "provisioningState": provisioning, "hardwareProfile": hardware, **properties}
    return {
        "id": "/vms/0",
        "name": params["name"],
        "location": REGION,
        "tags": params["vm"]["tags"],
        "properties": shown,
    }


def written(document: dict[str, Any]) -> bytes:
    return json.dumps(document).encode()


CONFLICT = (412, written({"error": {"code": "PreconditionFailed", "message": "exists"}}))


@pytest.mark.parametrize("failure", READS_THAT_FAIL)
def test_an_accepted_vm_is_the_answer_though_its_failure_cannot_be_read(
    answer: Answer, azure: AzureProvider, failure: str
) -> None:
    status, code = READS_THAT_FAIL[failure]
    answer.first = [(201, written(record(azure, "Failed")))]
    answer.error(code, status)
    vm = azure.launch(REGION, azure.plan(spec()))
    assert (vm.id.partition(":")[2], vm.state) == (VM_ID, VmState.PENDING), "looked at again by the watch"
    assert [one[0] for one in answer.asked] == ["PUT", "GET"]


@pytest.mark.parametrize("failure", READS_THAT_FAIL)
def test_what_has_our_name_and_cannot_be_read_back_is_an_unknown_outcome(
    answer: Answer, azure: AzureProvider, failure: str
) -> None:
    status, code = READS_THAT_FAIL[failure]
    answer.first = [CONFLICT]
    answer.error(code, status)
    with pytest.raises(errors.OutcomeUnknown) as caught:
        azure.launch(REGION, azure.plan(spec()))
    assert caught.value.code == code


@pytest.mark.parametrize("failure", READS_THAT_FAIL)
def test_our_vm_is_the_answer_though_its_addresses_cannot_be_read(
    answer: Answer, azure: AzureProvider, failure: str
) -> None:
    status, code = READS_THAT_FAIL[failure]
    running = {"statuses": [{"code": "PowerState/running"}]}
    interface = {"networkInterfaces": [{"id": "/networkInterfaces/0"}]}
    answer.first = [CONFLICT, (200, written(record(azure, instanceView=running, networkProfile=interface)))]
    answer.error(code, status)
    vm = azure.launch(REGION, azure.plan(spec()))
    assert (vm.id.partition(":")[2], vm.state, vm.public_ip) == (VM_ID, VmState.RUNNING, None)


@pytest.mark.parametrize("tag", ["gpulease-installation", "gpulease-lease", "gpulease-attempt", "gpulease-request"])
def test_a_vm_of_another_launch_under_our_name_is_a_conflict(answer: Answer, azure: AzureProvider, tag: str) -> None:
    theirs = record(azure)
    answer.first = [CONFLICT]
    answer.json(theirs | {"tags": {**theirs["tags"], tag: "theirs"}})
    with pytest.raises(errors.TokenConflict) as caught:
        azure.launch(REGION, azure.plan(spec()))
    assert caught.value.code == "PreconditionFailed"


class Machines:
    """Azure's virtual machines: the PUT is answered, and no connection can be made after it."""

    def __init__(self, answer: Any) -> None:
        self._answer = answer

    def begin_create_or_update(self, *_: object, **__: object) -> Any:
        if isinstance(self._answer, Exception):
            raise self._answer
        return SimpleNamespace(result=lambda: self._answer)

    def get(self, *_: object, **__: object) -> Any:
        cause = NewConnectionError(cast(Any, None), "no line")
        raise ServiceRequestError(message="no line", error=cause)


def test_a_cloud_that_is_out_of_reach_after_the_call_was_accepted_was_in_reach_before(azure: AzureProvider) -> None:
    group = cast(
        Group, SimpleNamespace(name="g", compute=SimpleNamespace(virtual_machines=Machines(record(azure, "Failed"))))
    )
    assert launch.create(group, azure.plan(spec())).state is VmState.PENDING
