"""Credentials: where they come from, and that they are never shown; connections: bounded, shared, not repeated."""

import json
import logging
import socket
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import google.auth.transport.requests
import pytest
from google.auth import impersonated_credentials
from google.auth.credentials import AnonymousCredentials

from tests.harness.cached_settings import read_settings
from tests.workers.providers.gcp.accounts import PROJECT, REGION, account, key_file, provider
from tests.workers.providers.gcp.answering import TOKEN, Answer, answering
from tests.workers.providers.gcp.specs import spec
from workers.providers import errors
from workers.providers.gcp.adapter import GcpProvider
from workers.providers.gcp.clients import GcpClients
from workers.providers.gcp.sdk import InstancesClient, ProjectsClient

NUMBER = {"kind": "compute#project", "id": "123456789012", "name": PROJECT}


@pytest.fixture(scope="module")
def server() -> Any:
    with answering() as answer:
        yield answer


@pytest.fixture
def stub(server: Answer) -> Answer:
    fresh = Answer(url=server.url)
    server.__dict__.update(fresh.__dict__)
    server.json(NUMBER)
    return server


def test_connecting_makes_no_call_and_needs_no_credentials(stub: Answer) -> None:
    GcpProvider(account(stub.url, "/nowhere/key.json"), read_settings()).plan(spec())
    assert not stub.calls


def test_the_identity_is_the_projects_number(stub: Answer, tmp_path: Path) -> None:
    assert provider(stub.url, tmp_path).identity() == "123456789012"


@pytest.mark.parametrize("content", [None, "not json", "{}", '{"type": "authorized_user"}'])
def test_a_key_file_that_cannot_be_used_is_credentials_rejected(
    stub: Answer, tmp_path: Path, content: str | None
) -> None:
    path = tmp_path / "key.json"
    if content is not None:
        path.write_text(content)
    with pytest.raises(errors.CredentialsRejected, match="renew the credentials"):
        GcpProvider(account(stub.url, str(path)), read_settings()).identity()
    assert not stub.calls


def test_application_default_credentials_are_found(
    stub: Answer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GOOGLE_APPLICATION_CREDENTIALS", key_file(tmp_path, stub.url))
    assert GcpProvider(account(stub.url, None), read_settings()).identity() == "123456789012"


def test_no_credentials_at_all_is_credentials_rejected(
    stub: Answer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GOOGLE_APPLICATION_CREDENTIALS", str(tmp_path / "nowhere.json"))
    with pytest.raises(errors.CredentialsRejected):
        GcpProvider(account(stub.url, None), read_settings()).identity()


def test_a_key_that_google_no_longer_knows_is_credentials_rejected(stub: Answer, tmp_path: Path) -> None:
    stub.token_status = 400
    stub.token_body = json.dumps({"error": "invalid_grant", "error_description": "Invalid JWT Signature."})
    with pytest.raises(errors.CredentialsRejected, match="invalid_grant"):
        provider(stub.url, tmp_path).identity()
    assert not stub.calls


def test_one_token_serves_every_client_and_nobody_else_is_asked(
    stub: Answer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[str] = []
    real = socket.getaddrinfo

    def resolve(host: Any, *args: Any, **kwargs: Any) -> Any:
        asked.append(host)
        return real(host, *args, **kwargs)

    monkeypatch.setattr(socket, "getaddrinfo", resolve)
    gcp = provider(stub.url, tmp_path)
    for _ in range(3):
        gcp.identity()
    assert set(asked) == {"127.0.0.1"}
    assert stub.tokens == 1


def test_a_token_endpoint_out_of_reach_means_that_nothing_was_sent(stub: Answer, tmp_path: Path) -> None:
    with answering() as gone:
        path = key_file(tmp_path, gone.url)
    with pytest.raises(errors.Unreachable, match="no access token"):
        GcpProvider(account(stub.url, path), read_settings()).identity()
    assert not stub.calls


def test_the_project_that_pays_for_the_calls_is_still_named(stub: Answer, tmp_path: Path) -> None:
    clients = GcpClients(account(stub.url, key_file(tmp_path, stub.url)), read_settings())
    clients.of(ProjectsClient)
    found: Any = clients._credentials
    found.source = found.source.with_quota_project("payer")
    headers: dict[str, str] = {}
    found.before_request(google.auth.transport.requests.Request(), "GET", stub.url, headers)
    assert headers == {"authorization": f"Bearer {TOKEN}", "x-goog-user-project": "payer"}


def test_impersonation_acts_through_the_accounts_credentials(stub: Answer, tmp_path: Path) -> None:
    wanted = account(stub.url, key_file(tmp_path, stub.url), impersonate="robot@p.example")
    clients = GcpClients(wanted, read_settings())
    clients.of(ProjectsClient)
    found: Any = clients._credentials
    assert isinstance(found.source, impersonated_credentials.Credentials)
    assert found.source.service_account_email == "robot@p.example"


def test_no_secret_reaches_logs_or_errors_even_at_debug(
    caplog: pytest.LogCaptureFixture, stub: Answer, tmp_path: Path
) -> None:
    caplog.set_level(logging.DEBUG)
    gcp = provider(stub.url, tmp_path)
    with pytest.raises(errors.OutcomeUnknown) as caught:
        gcp.launch(REGION, gcp.plan(spec(startup_script="#!/bin/sh\nexport TOKEN=hunter2\n")))
    shown = caplog.text + str(caught.value) + repr(caught.value)
    for secret in (TOKEN, "hunter2", "PRIVATE KEY"):
        assert secret not in shown


def test_threads_share_one_client_per_service_and_one_pool() -> None:
    clients = GcpClients(account("http://127.0.0.1:9", None), read_settings(worker_threads=40))
    clients._credentials = AnonymousCredentials()
    kinds: list[type[Any]] = [InstancesClient, ProjectsClient]
    with ThreadPoolExecutor(8) as pool:
        made: list[Any] = list(pool.map(lambda n: clients.of(kinds[n % 2]), range(32)))
    assert len({id(client) for client in made}) == 2
    pools = {id(client.transport._session.get_adapter("https://compute.googleapis.com/")) for client in made}
    assert len(pools) == 1
    assert made[0].transport._session.get_adapter("http://127.0.0.1:9/")._pool_maxsize >= 40


def test_without_an_endpoint_it_is_googles_over_tls() -> None:
    clients = GcpClients(account("http://127.0.0.1:9", None).model_copy(update={"endpoint_url": None}), read_settings())
    clients._credentials = AnonymousCredentials()
    assert clients.of(InstancesClient).transport._host == "https://compute.googleapis.com"
