"""Credentials: where they go, and that they go nowhere else; requests that are not made."""

import json
import socket
from collections.abc import Iterator
from typing import Any

import pytest

from app.settings import Settings
from tests.harness.cached_settings import read_settings
from tests.workers.providers.azure.accounts import account
from tests.workers.providers.azure.answering import Answer, answering
from tests.workers.providers.azure.specs import REGION, spec
from tests.workers.providers.conftest import AZURE_TOKEN
from workers.providers import errors, registry, types
from workers.providers.azure.adapter import AzureProvider
from workers.providers.azure.clients import AzureClients, is_stand_in

NETWORKS = ("203.0.113.0/24",)
VM_ID = "00000000-0000-4000-8000-000000000000"


@pytest.fixture
def answer() -> Iterator[Answer]:
    with answering() as answer:
        yield answer


def connect(answer: Answer) -> AzureProvider:
    return AzureProvider(account(answer.url), read_settings())


def record(**changes: Any) -> dict[str, Any]:
    properties = {"vmId": VM_ID, "provisioningState": "Creating", "hardwareProfile": {"vmSize": "x"}}
    return {"id": "/x/vm", "name": "vm", "location": REGION, "tags": {}, "properties": properties, **changes}


def test_connecting_makes_no_call_and_needs_no_credentials(answer: Answer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("AZURE_CLIENT_SECRET")
    azure = registry.connect(account(answer.url), read_settings())
    azure.plan(spec())
    assert not answer.asked


@pytest.mark.parametrize(
    ("endpoint", "expected"),
    [
        ("http://127.0.0.1:8010", True),
        ("http://[::1]:8010", True),
        ("http://localhost:8010", True),
        ("https://127.0.0.1:8010", False),
        ("http://10.0.0.1", False),
        ("http://127.0.0.1.example.org", False),
        ("http://localhost.example.org", False),
        ("https://management.azure.com", False),
        ("ftp://localhost", False),
    ],
)
def test_only_plain_http_on_this_host_is_a_stand_in(endpoint: str, expected: bool) -> None:
    assert is_stand_in(endpoint) is expected


def test_a_stand_in_gets_the_token_as_it_stands_now(answer: Answer, monkeypatch: pytest.MonkeyPatch) -> None:
    azure = connect(answer)
    answer.json({"subscriptionId": "S"})
    assert azure.identity() == "s"
    monkeypatch.setenv("AZURE_CLIENT_SECRET", "renewed")
    azure.identity()
    assert [one[2] for one in answer.asked] == [f"Bearer {AZURE_TOKEN}", "Bearer renewed"]


def test_without_credentials_for_azure_itself_nothing_is_sent(monkeypatch: pytest.MonkeyPatch) -> None:
    """The secret alone is no credential there: the chain also wants to know whose it is, and then a token from Entra."""
    monkeypatch.setenv("PATH", "/nowhere")
    monkeypatch.setenv("AZURE_TOKEN_CREDENTIALS", "EnvironmentCredential")
    azure = AzureProvider(account("http://x", endpoint_url=None, tenant_id="t"), Settings(connect_timeout=0.1))
    with pytest.raises(errors.CredentialsRejected, match="renew the credentials"):
        azure.identity()


def test_the_clients_are_made_once(answer: Answer) -> None:
    clients = AzureClients(account(answer.url), read_settings())
    assert clients.compute is clients.compute
    assert clients.network is clients.network


def test_the_console_is_fetched_without_our_token(answer: Answer) -> None:
    address = json.dumps({"serialConsoleLogBlobUri": f"{answer.url}/blob?sig=s"}).encode()
    answer.first += [(200, json.dumps(record()).encode()), (200, address)]
    answer.say(200, "Linux\r\n" + "x" * 100_000 + "the end")
    text = connect(answer).console_output(REGION, f"vm:{VM_ID}")
    assert text.endswith("the end")
    assert len(text) == 64 * 1024
    assert answer.asked[-1][:3] == ("GET", "/blob?sig=s", None)


def test_a_console_elsewhere_than_at_a_safe_address_is_not_fetched(answer: Answer) -> None:
    address = json.dumps({"serialConsoleLogBlobUri": "http://169.254.169.254/metadata"}).encode()
    answer.first += [(200, json.dumps(record()).encode()), (200, address)]
    with pytest.raises(errors.OutcomeUnknown):
        connect(answer).console_output(REGION, f"vm:{VM_ID}")
    assert len(answer.asked) == 2


def group(state: str, tags: dict[str, str]) -> bytes:
    return json.dumps({"id": "/x/g", "tags": tags, "properties": {"provisioningState": state}}).encode()


def test_no_vm_is_launched_before_its_group_stands(answer: Answer) -> None:
    azure = connect(answer)
    params = azure.plan(spec(allowed_cidrs=NETWORKS))
    tags = params["firewall"]["body"]["tags"]
    missing = json.dumps({"error": {"code": "ResourceNotFound", "message": ""}}).encode()
    answer.first += [(404, missing), (201, group("Updating", tags))]
    with pytest.raises(errors.NotReady) as waiting:
        azure.launch(REGION, params)
    assert waiting.value.retry_after == 1.0
    assert [one[0] for one in answer.asked] == ["GET", "PUT"]
    answer.first += [(200, group("Succeeded", tags))]
    answer.json(record(), 201)
    assert azure.launch(REGION, params).id == f"vm:{VM_ID}"
    assert [one[0] for one in answer.asked[2:]] == ["GET", "PUT"], "a group that stands is never changed"


def test_a_group_that_azure_could_not_make_is_removed(answer: Answer) -> None:
    azure = connect(answer)
    params = azure.plan(spec(allowed_cidrs=NETWORKS))
    answer.first += [(200, group("Failed", params["firewall"]["body"]["tags"]))]
    answer.json({}, 202)
    with pytest.raises(errors.Refused, match="could not make"):
        azure.launch(REGION, params)
    assert [one[0] for one in answer.asked] == ["GET", "DELETE"]


def test_a_group_of_somebody_else_is_never_used(answer: Answer) -> None:
    azure = connect(answer)
    answer.first += [(200, group("Succeeded", {"gpulease-installation": "another"}))]
    with pytest.raises(errors.OutcomeUnknown, match="not ours"):
        azure.launch(REGION, azure.plan(spec(allowed_cidrs=NETWORKS)))
    assert len(answer.asked) == 1


def test_a_vm_of_the_same_name_and_another_identity_is_another_one(answer: Answer) -> None:
    azure = connect(answer)
    other = f"vm:{VM_ID[:-1]}1"
    answer.json(record())
    assert azure.get(REGION, [other]) == {other: None}
    azure.terminate(REGION, [other])
    with pytest.raises(errors.NotFound):
        azure.reboot(REGION, [other]).require()
    assert {one[0] for one in answer.asked} == {"GET"}, "nothing is done to it"


def test_one_vm_that_cannot_be_ended_keeps_no_other_waiting(answer: Answer) -> None:
    azure = connect(answer)
    locked = json.dumps({"error": {"code": "ScopeLocked", "message": "locked"}}).encode()
    answer.first += [(200, json.dumps(record()).encode()), (409, locked), (200, json.dumps(record()).encode())]
    answer.say(202, "")
    other = f"other:{VM_ID}"
    result = azure.terminate(REGION, [f"vm:{VM_ID}", other])
    assert {one: error.code for one, error in result.refused.items()} == {f"vm:{VM_ID}": "ScopeLocked"}
    assert result.done == {other}
    assert [one[0] for one in answer.asked] == ["GET", "DELETE", "GET", "DELETE"]


def test_a_vm_is_ended_by_force(answer: Answer) -> None:
    answer.first.append((200, json.dumps(record()).encode()))
    answer.say(202, "")
    connect(answer).terminate(REGION, [f"vm:{VM_ID}"])
    assert "forceDeletion=true" in answer.asked[-1][1]


@pytest.mark.parametrize("code", ["NicReservedForAnotherVm", "NicInUse", "OperationNotAllowed"])
def test_what_is_held_says_why(answer: Answer, code: str) -> None:
    answer.error(code, 400, "reserved for another VM for 180 seconds")
    held = types.Leftover(kind="network_interface", id="/x/nic", region=REGION, tags={}, in_use=False)
    with pytest.raises(errors.ProviderError) as caught:
        connect(answer).remove_leftover(held)
    assert caught.value.code == code


def test_a_token_endpoint_that_hangs_is_asked_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """The SDK's own repeats would make one call last several times its time-out."""
    with socket.create_server(("127.0.0.1", 0)) as silent:
        monkeypatch.setenv("AZURE_TOKEN_CREDENTIALS", "managedidentitycredential")
        monkeypatch.setenv("AZURE_POD_IDENTITY_AUTHORITY_HOST", f"http://127.0.0.1:{silent.getsockname()[1]}")
        azure = AzureProvider(account("https://127.0.0.1:1"), read_settings(call_timeout=0.2, connect_timeout=0.2))
        with pytest.raises(errors.ProviderError):
            azure.identity()
        silent.setblocking(False)
        silent.accept()[0].close()
        with pytest.raises(BlockingIOError):
            silent.accept()
