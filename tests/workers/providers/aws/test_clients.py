"""Credentials: where they come from, how a role is assumed and renewed, and that they are never shown."""

import logging
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from app.settings import Settings
from cloudsim.testing import Control, running
from tests.harness.cached_settings import read_settings
from tests.workers.providers.aws.answering import Answer, answering
from tests.workers.providers.conftest import ACCESS_KEY, SECRET_KEY
from tests.workers.providers.samples import spec
from workers.providers import errors
from workers.providers.aws.adapter import AwsProvider
from workers.providers.aws.clients import AwsClients
from workers.providers.aws.settings import AwsAccount

REGION = "us-east-1"
ROLE = "arn:aws:iam::210987654321:role/gpulease"


def connect(url: str | None, **account: Any) -> AwsProvider:
    found = AwsAccount(provider="aws", name="main", regions=(REGION,), endpoint_url=url, **account)
    return AwsProvider(found, read_settings(call_timeout=60.0))


def assumed(expires: datetime, token: str = "session-token-secret") -> str:
    """The answer of AssumeRole."""
    return f"""<AssumeRoleResponse xmlns="https://sts.amazonaws.com/doc/2011-06-15/"><AssumeRoleResult>
      <AssumedRoleUser><AssumedRoleId>A:gpulease</AssumedRoleId><Arn>{ROLE}</Arn></AssumedRoleUser>
      <Credentials><AccessKeyId>ASIAASSUMEDASSUMED</AccessKeyId><SecretAccessKey>assumed-secret</SecretAccessKey>
      <SessionToken>{token}</SessionToken><Expiration>{expires.isoformat()}</Expiration></Credentials>
      </AssumeRoleResult></AssumeRoleResponse>"""


@pytest.fixture(scope="module")
def sim() -> Iterator[Control]:
    with running() as sim:
        yield sim


@pytest.fixture
def stub() -> Iterator[Answer]:
    with answering() as answer:
        yield answer


def test_connecting_makes_no_call_and_needs_no_credentials(monkeypatch: pytest.MonkeyPatch, stub: Answer) -> None:
    monkeypatch.delenv("AWS_ACCESS_KEY_ID")
    connect(stub.url, role_arn=ROLE, profile="no-such-profile").plan(spec())
    assert not stub.bodies


def test_a_role_is_assumed_and_its_account_is_the_identity(sim: Control) -> None:
    assert connect(sim.url, role_arn=ROLE).identity() == "210987654321"
    assert connect(sim.url).identity() != "210987654321"


def test_the_role_is_assumed_once_while_its_credentials_last(sim: Control) -> None:
    sim.reset()
    aws = connect(sim.url, role_arn=ROLE)
    for _ in range(3):
        aws.identity()
        aws.get(REGION, ["i-0123456789abcdef0"])
    assert sim.calls()["AssumeRole"] == 1


def test_a_role_that_may_not_be_assumed_is_credentials_rejected(stub: Answer) -> None:
    for code, status in (("AccessDenied", 403), ("ValidationError", 400), ("SomethingNew", 403)):
        stub.sts(code, status)
        with pytest.raises(errors.CredentialsRejected, match="AssumeRole"):
            connect(stub.url, role_arn=ROLE).get(REGION, ["i-0123456789abcdef0"])


def test_a_role_asked_for_too_often_is_throttled_and_in_trouble_unknown(stub: Answer) -> None:
    stub.sts("Throttling", 400)
    with pytest.raises(errors.Throttled):
        connect(stub.url, role_arn=ROLE).get(REGION, ["i-0123456789abcdef0"])
    stub.sts("ServiceUnavailable", 503)
    with pytest.raises(errors.OutcomeUnknown):
        connect(stub.url, role_arn=ROLE).get(REGION, ["i-0123456789abcdef0"])


def test_credentials_that_come_expired_are_credentials_rejected(stub: Answer) -> None:
    stub.say(200, assumed(datetime(2026, 1, 1, tzinfo=UTC)))
    with pytest.raises(errors.CredentialsRejected, match="clock of this host"):
        connect(stub.url, role_arn=ROLE).get(REGION, ["i-0123456789abcdef0"])


def test_no_credentials_at_all_is_credentials_rejected(monkeypatch: pytest.MonkeyPatch, stub: Answer) -> None:
    monkeypatch.delenv("AWS_ACCESS_KEY_ID")
    monkeypatch.delenv("AWS_SECRET_ACCESS_KEY")
    for role in ({}, {"role_arn": ROLE}):
        with pytest.raises(errors.CredentialsRejected, match="renew the credentials"):
            connect(stub.url, **role).identity()
    assert not stub.bodies


def test_half_a_credential_is_credentials_rejected(monkeypatch: pytest.MonkeyPatch, stub: Answer) -> None:
    monkeypatch.delenv("AWS_SECRET_ACCESS_KEY")
    with pytest.raises(errors.CredentialsRejected):
        connect(stub.url).identity()


def test_an_unknown_profile_is_credentials_rejected_and_named(stub: Answer) -> None:
    with pytest.raises(errors.CredentialsRejected, match="no-such-profile"):
        connect(stub.url, profile="no-such-profile").identity()


def test_a_broken_credentials_file_is_credentials_rejected(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, stub: Answer
) -> None:
    broken = tmp_path / "config"
    broken.write_text("[profile x\nnot an ini file")
    monkeypatch.setenv("AWS_CONFIG_FILE", str(broken))
    with pytest.raises(errors.CredentialsRejected):
        connect(stub.url, profile="x").identity()


def test_a_profile_chooses_the_credentials(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, sim: Control) -> None:
    config = tmp_path / "config"
    config.write_text("[profile other]\naws_access_key_id = AKIAOTHEROTHER\naws_secret_access_key = s\n")
    monkeypatch.setenv("AWS_CONFIG_FILE", str(config))
    sim.credentials(bad=["AKIAOTHEROTHER"])
    try:
        assert connect(sim.url).identity()
        with pytest.raises(errors.CredentialsRejected):
            connect(sim.url, profile="other").identity()
    finally:
        sim.credentials(bad=[])


def test_no_secret_reaches_logs_or_errors_even_at_debug(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, stub: Answer
) -> None:
    caplog.set_level(logging.DEBUG)
    stub.say(200, assumed(datetime(2100, 1, 1, tzinfo=UTC)))
    aws = connect(stub.url, role_arn=ROLE)
    with pytest.raises(errors.OutcomeUnknown) as caught:
        aws.launch(REGION, aws.plan(spec(startup_script="#!/bin/sh\nexport TOKEN=hunter2\n")))
    shown = caplog.text + str(caught.value) + repr(caught.value)
    for secret in (SECRET_KEY, "assumed-secret", "session-token-secret", "hunter2"):
        assert secret not in shown
    assert ACCESS_KEY not in str(caught.value)


def test_threads_share_one_client_per_region() -> None:
    account = AwsAccount(provider="aws", name="main", regions=(REGION,), endpoint_url="http://127.0.0.1:9")
    clients = AwsClients(account, read_settings())
    with ThreadPoolExecutor(16) as pool:
        made = list(pool.map(lambda n: clients.ec2(REGION if n % 2 else "eu-west-1"), range(64)))
    assert len({id(client) for client in made}) == 2


def test_a_client_neither_retries_nor_waits_longer_than_told_and_serves_all_threads() -> None:
    account = AwsAccount(provider="aws", name="main", regions=(REGION,), endpoint_url="http://127.0.0.1:9")
    settings = Settings(call_timeout=11.0, connect_timeout=3.0, worker_threads=40)
    config: Any = AwsClients(account, settings).ec2(REGION).meta.config
    assert config.retries["total_max_attempts"] == 1
    assert (config.connect_timeout, config.read_timeout) == (3.0, 11.0)
    assert config.max_pool_connections >= 40
    assert "gpulease" in config.user_agent_extra
