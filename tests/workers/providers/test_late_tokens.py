"""A create call leaves within its send window, also when the SDK first renews the credentials, and is not sent otherwise."""

import gc
import ipaddress
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from cryptography.x509.oid import NameOID

from cloudsim.testing import Control, running
from tests.harness.cached_settings import read_settings
from tests.workers.providers.azure import accounts as azure_accounts
from tests.workers.providers.azure import specs as azure_specs
from tests.workers.providers.gcp import accounts as gcp_accounts
from tests.workers.providers.gcp import specs as gcp_specs
from tests.workers.providers.samples import owner, spec, token_of
from workers.providers import errors
from workers.providers.aws.adapter import AwsProvider
from workers.providers.aws.settings import AwsAccount
from workers.providers.azure.adapter import AzureProvider
from workers.providers.ports import Provider
from workers.providers.send_window import send_window
from workers.providers.types import Slot

ROLE = "arn:aws:iam::210987654321:role/gpulease"
AWS_REGION = "us-east-1"
WINDOW = 0.3
LATE = 0.6
"""Seconds. A token that takes so long arrives after the window has closed."""
BATCH, TOKEN, SECRET = "batch_a", "b" * 64, "c" * 64
OWNERS = [owner(f"lease_{index}") for index in range(2)]
SLOTS = [Slot(index=index, token=token_of(of), owner=of) for index, of in enumerate(OWNERS)]


@pytest.fixture
def sim() -> Iterator[Control]:
    with running() as sim:
        yield sim


@pytest.fixture
def certificate(tmp_path: Path) -> Path:
    """A PEM file with a key and the certificate of 127.0.0.1, which signs itself."""
    key, now = ec.generate_private_key(ec.SECP256R1()), datetime(2026, 1, 1, tzinfo=UTC)
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "cloudsim")])
    loopback = x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address("127.0.0.1"))])
    builder = x509.CertificateBuilder(name, name, key.public_key(), x509.random_serial_number())
    valid = builder.not_valid_before(now).not_valid_after(now + timedelta(days=36_500))
    signed = valid.add_extension(loopback, critical=False).sign(key, hashes.SHA256())
    path = tmp_path / "certificate.pem"
    secret = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    path.write_bytes(secret + signed.public_bytes(Encoding.PEM))
    return path


def aws(sim: Control) -> Provider:
    """An account whose credentials come from STS. The client exists, since its model takes long to load."""
    account = AwsAccount(provider="aws", name="main", regions=(AWS_REGION,), endpoint_url=sim.url, role_arn=ROLE)
    provider = AwsProvider(account, read_settings(call_timeout=60.0))
    provider._clients.ec2(AWS_REGION)
    return provider


def within_window() -> AbstractContextManager[None]:
    return send_window(time.monotonic() + WINDOW, time.monotonic)


def refuses_to_send(launch: Callable[[], Any]) -> None:
    started = time.monotonic()
    with within_window(), pytest.raises(errors.SendExpired):
        launch()
    assert time.monotonic() - started >= LATE, "the token came late"


def test_a_call_to_ec2_does_not_leave_after_its_window(sim: Control) -> None:
    image = aws(sim).image(AWS_REGION)
    provider = aws(sim)
    params, batch = (
        provider.plan(spec(image=image)),
        provider.plan_batch(spec(image=image, slot_secret=SECRET), BATCH, TOKEN, SLOTS),
    )
    another = aws(sim)
    for launch in (
        lambda: provider.launch(AWS_REGION, params),
        lambda: another.launch_batch(AWS_REGION, batch),
    ):
        sim.fault("AssumeRole", "delay", delay_seconds=LATE)
        refuses_to_send(launch)
    assert sim.instances() == []
    with within_window():
        assert provider.launch(AWS_REGION, params).id


def test_a_call_to_compute_engine_does_not_leave_after_its_window(sim: Control, tmp_path: Path) -> None:
    provider = gcp_accounts.provider(sim.url, tmp_path)
    image = gcp_accounts.provider(sim.url, tmp_path).image(gcp_accounts.REGION)
    params = provider.plan(gcp_specs.spec(image=image))
    batch = provider.plan_batch(gcp_specs.spec(image=image, slot_secret=SECRET), BATCH, TOKEN, SLOTS)
    for launch in (
        lambda: provider.launch(gcp_accounts.REGION, params),
        lambda: gcp_accounts.provider(sim.url, tmp_path).launch_batch(gcp_accounts.REGION, batch),
    ):
        sim.fault("token", "delay", provider="gcp", delay_seconds=LATE)
        refuses_to_send(launch)
    assert sim.instances() == []
    with within_window():
        assert provider.launch(gcp_accounts.REGION, params).id


def test_a_token_that_google_refuses_in_the_call_is_renewed_within_the_window(sim: Control, tmp_path: Path) -> None:
    """Google's library renews a refused token by itself and sends the call again."""
    provider = gcp_accounts.provider(sim.url, tmp_path)
    params = provider.plan(gcp_specs.spec(image=provider.image(gcp_accounts.REGION)))
    sim.fault("instances.insert", "error", provider="gcp", code="authError")
    sim.fault("token", "delay", provider="gcp", delay_seconds=LATE)
    refuses_to_send(lambda: provider.launch(gcp_accounts.REGION, params))
    assert sim.instances() == []
    sim.fault("instances.insert", "error", provider="gcp", code="authError")
    with within_window():
        vm = provider.launch(gcp_accounts.REGION, params)
    assert len(sim.instances()) == 1
    assert provider.get(gcp_accounts.REGION, [vm.id])[vm.id] is not None


def test_a_call_to_azure_does_not_leave_after_its_window(
    monkeypatch: pytest.MonkeyPatch, sim: Control, certificate: Path
) -> None:
    """Over TLS, since azure-identity gives its tokens to no other server. The tokens come from `sim`."""
    with running(certificate=certificate) as azure:
        monkeypatch.setenv("REQUESTS_CA_BUNDLE", str(certificate))
        monkeypatch.setenv("AZURE_TOKEN_CREDENTIALS", "managedidentitycredential")
        monkeypatch.setenv("AZURE_POD_IDENTITY_AUTHORITY_HOST", sim.url)
        provider = AzureProvider(azure_accounts.account(azure.url), read_settings(call_timeout=60.0))
        params = provider.plan(azure_specs.spec())
        sim.fault("token", "delay", provider="azure", delay_seconds=LATE)
        refuses_to_send(lambda: provider.launch(azure_specs.REGION, params))
        assert azure.instances() == []
        with within_window():
            assert provider.launch(azure_specs.REGION, params).id
        for client in (provider._group.compute, provider._group.network):
            client.close()  # the server ends once no connection is open
        gc.collect()  # azure.core keeps the response to a long-running operation, and its connection, in a circle
