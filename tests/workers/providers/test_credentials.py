"""A request is sent only with credentials that were verified, whichever SDK signs it and whenever the credentials change."""

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from cloudsim.gce.credentials import issue
from cloudsim.testing import Control, running
from tests.harness.cached_settings import read_settings
from tests.workers.providers.azure.accounts import account as azure_account
from tests.workers.providers.gcp.accounts import REGION as GCP_REGION
from tests.workers.providers.gcp.accounts import ZONE as GCP_ZONE
from tests.workers.providers.gcp.accounts import provider as gcp_provider
from tests.workers.providers.samples import INSTALLATION, owner, spec
from tests.workers.wallet import RENEWED, THEIRS, Wallet
from workers.providers.aws.adapter import AwsProvider
from workers.providers.aws.settings import AwsAccount
from workers.providers.azure.adapter import AzureProvider
from workers.providers.credentials import CredentialGuard, CredentialsUnverified
from workers.providers.ports import Provider
from workers.providers.types import Params


@dataclass(frozen=True)
class Cloud:
    """An account at a stand-in. `renew` changes the credentials that its next request is signed with."""

    name: str
    provider: Provider
    region: str
    zone: str
    instance_type: str
    renew: Callable[[], None]


@pytest.fixture(scope="module")
def sim() -> Iterator[Control]:
    with running(boot_seconds=0.05) as sim:
        yield sim


@pytest.fixture
def aws_wallet(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Wallet:
    return Wallet(tmp_path, monkeypatch)


@pytest.fixture
def aws(sim: Control, aws_wallet: Wallet) -> Cloud:
    account = AwsAccount(provider="aws", name="main", regions=("us-east-1",), endpoint_url=sim.url)
    adapter = AwsProvider(account, read_settings(call_timeout=60.0))
    return Cloud("aws", adapter, "us-east-1", "us-east-1a", "g5.xlarge", lambda: aws_wallet.put(RENEWED))


@pytest.fixture
def gcp(sim: Control, tmp_path: Path) -> Cloud:
    adapter = gcp_provider(sim.url, tmp_path)

    def renew() -> None:
        credentials: Any = adapter._clients._credentials
        credentials.token = issue("renewed@sim-project.example")

    return Cloud("gcp", adapter, GCP_REGION, GCP_ZONE, "g2-standard-4", renew)


@pytest.fixture
def azure(sim: Control, monkeypatch: pytest.MonkeyPatch) -> Cloud:
    adapter = AzureProvider(azure_account(sim.url), read_settings(call_timeout=60.0))

    def renew() -> None:
        monkeypatch.setenv("AZURE_CLIENT_SECRET", "a-renewed-token")

    return Cloud("azure", adapter, "eastus", "1", "Standard_NC4as_T4_v3", renew)


@pytest.fixture(params=["aws", "gcp", "azure"])
def cloud(request: pytest.FixtureRequest, sim: Control) -> Cloud:
    sim.reset()
    cloud: Cloud = request.getfixturevalue(request.param)
    return cloud


def planned(cloud: Cloud, n: int) -> Params:
    place = {"region": cloud.region, "zone": cloud.zone, "instance_type": cloud.instance_type}
    return cloud.provider.plan(spec(owner(n=n), image=cloud.provider.image(cloud.region), **place))


def launch(cloud: Cloud, n: int = 1) -> str:
    return cloud.provider.launch(cloud.region, planned(cloud, n)).id


def trust(cloud: Cloud) -> None:
    cloud.provider.trust(cloud.provider.identity())


def test_changed_credentials_send_nothing_until_they_are_verified(cloud: Cloud, sim: Control) -> None:
    first = launch(cloud)
    trust(cloud)
    launch(cloud, n=2)
    params = planned(cloud, 3)
    cloud.renew()
    before = sim.calls(cloud.name)
    asked: list[Callable[[], object]] = [
        lambda: cloud.provider.launch(cloud.region, params),
        lambda: cloud.provider.terminate(cloud.region, [first]),
        lambda: cloud.provider.get(cloud.region, [first]),
        lambda: list(cloud.provider.list(frozenset({cloud.region}), INSTALLATION)),
        lambda: cloud.provider.set_deadline(cloud.region, [first], owner().deadline_at),
    ]
    for ask in asked:
        with pytest.raises(CredentialsUnverified):
            ask()
    assert sim.calls(cloud.name) == before
    trust(cloud)
    launch(cloud, n=3)
    cloud.provider.terminate(cloud.region, [first])
    assert len(sim.instances(provider=cloud.name)) == 3


def test_credentials_of_another_account_are_never_verified_for_ours(
    aws: Cloud, aws_wallet: Wallet, sim: Control
) -> None:
    sim.reset()
    trust(aws)
    aws_wallet.put(THEIRS)
    assert aws.provider.identity() == "000000000002"
    with pytest.raises(CredentialsUnverified):
        aws.provider.terminate(aws.region, ["i-0123456789abcdef0"])
    assert "TerminateInstances" not in sim.calls()


# --- the guard --------------------------------------------------------------------------------------------


def verified(guard: CredentialGuard, credentials: str, identity: str = "us") -> None:
    with guard.asking() as question:
        guard.check(credentials)
    guard.learn(question, identity)


@pytest.fixture
def guard() -> CredentialGuard:
    guard = CredentialGuard()
    verified(guard, "a")
    guard.trust("us")
    return guard


def test_only_verified_credentials_pass(guard: CredentialGuard) -> None:
    guard.check("a")
    verified(guard, "b", "them")
    for credentials in ("b", "c", ""):
        with pytest.raises(CredentialsUnverified):
            guard.check(credentials)
    verified(guard, "b")
    guard.check("b")


def test_a_question_lets_only_its_own_thread_pass(guard: CredentialGuard) -> None:
    with guard.asking(), ThreadPoolExecutor(1) as other, pytest.raises(CredentialsUnverified):
        other.submit(guard.check, "c").result()


def test_a_question_that_was_never_sent_verifies_nothing(guard: CredentialGuard) -> None:
    with guard.asking() as question:
        pass
    guard.learn(question, "us")
    with pytest.raises(CredentialsUnverified):
        guard.check("c")


def test_old_credentials_are_forgotten_and_those_in_use_are_not(guard: CredentialGuard) -> None:
    for number in range(40):
        verified(guard, str(number))
    guard.check("39")
    with pytest.raises(CredentialsUnverified):
        guard.check("a")
