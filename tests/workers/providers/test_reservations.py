"""Reservations at each cloud through its adapter: what is observed, and that a launch uses what it names."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from app.domain.leases import VmState
from app.domain.offerings import Market
from app.local.waiting import wait_until
from cloudsim.testing import Control, running
from tests.harness.cached_settings import read_settings
from tests.workers.providers import samples
from tests.workers.providers.azure import accounts as azure_accounts
from tests.workers.providers.azure import specs as azure_specs
from tests.workers.providers.gcp import accounts as gcp_accounts
from tests.workers.providers.gcp import specs as gcp_specs
from workers.providers.aws.adapter import AwsProvider
from workers.providers.aws.reservations import BLOCK_ENDS_VMS, BLOCK_MARKET
from workers.providers.aws.settings import AwsAccount
from workers.providers.azure.adapter import AzureProvider
from workers.providers.errors import InsufficientCapacity, NotOffered
from workers.providers.types import ObservedReservation

AWS_ID = "cr-0000000000000000a"
GROUP_ID = (
    f"/subscriptions/{azure_accounts.SUBSCRIPTION}/resourceGroups/{azure_accounts.GROUP}"
    "/providers/Microsoft.Compute/capacityReservationGroups/gpus"
)
SETTINGS = read_settings(call_timeout=60.0)


@pytest.fixture(scope="module")
def sim() -> Iterator[Control]:
    with running(boot_seconds=0.1, queue_seconds=0.3) as control:
        yield control


@pytest.fixture(autouse=True)
def fresh(sim: Control, monkeypatch: pytest.MonkeyPatch) -> None:
    sim.reset()
    for name, value in {
        "AWS_ACCESS_KEY_ID": "AKIASIMULATED0000001",
        "AWS_SECRET_ACCESS_KEY": "simulated",
        "AZURE_CLIENT_SECRET": "simulated",
    }.items():
        monkeypatch.setenv(name, value)


def entry(kind: str, **members: Any) -> dict[str, Any]:
    return {"name": "mine", "kind": kind, **members}


def only(observed: Any) -> ObservedReservation:
    (reservation,) = observed
    assert isinstance(reservation, ObservedReservation)
    return reservation


AWS_PLACE = {"region": "us-east-1", "zone": "us-east-1a", "instance_type": "g5.xlarge"}


def aws(sim: Control, kind: str, **changes: Any) -> AwsProvider:
    reservation = entry(kind, id=AWS_ID, **(AWS_PLACE | changes))
    account = AwsAccount(
        provider="aws", name="sim", regions=("us-east-1",), endpoint_url=sim.url, reservations=(reservation,)
    )
    return AwsProvider(account, SETTINGS)


def bought(sim: Control, name: str, kind: str, place: dict[str, str], provider: str, **more: Any) -> None:
    where = {"zone": place["zone"], "instance_type": place["instance_type"]}
    sim.reserve(name, provider=provider, kind=kind, **where, **more)


def test_a_capacity_block_at_aws(sim: Control) -> None:
    bought(sim, AWS_ID, BLOCK_MARKET, AWS_PLACE, "aws", total=1, ends_in=86_400)
    provider = aws(sim, "capacity_block")
    before = only(provider.reservations("us-east-1"))
    assert (before.slots, before.free, before.problem) == (1, 1, None)
    assert before.ends_at is not None
    image = provider.image("us-east-1")

    def spec(**owner: Any) -> Any:
        return samples.spec(samples.owner(**owner), image=image, market=Market.RESERVED, reservation="mine")

    vm = provider.launch("us-east-1", provider.plan(spec()))
    assert provider.get("us-east-1", [vm.id])[vm.id].market is Market.RESERVED  # pyrefly: ignore[missing-attribute]
    assert only(provider.reservations("us-east-1")).free == 0
    with pytest.raises(InsufficientCapacity) as refusal:
        provider.launch("us-east-1", provider.plan(spec(n=2)))
    assert refusal.value.code == "ReservationCapacityExceeded"
    assert BLOCK_ENDS_VMS.total_seconds() == 1800
    with pytest.raises(NotOffered):
        provider.plan(samples.spec(image=image, market=Market.RESERVED, reservation="sold"))


@pytest.mark.parametrize(
    ("kind", "changes", "bought_as", "said"),
    [
        ("capacity_reservation", {}, {"kind": BLOCK_MARKET}, "correct its kind"),
        ("capacity_reservation", {"zone": "us-east-1b"}, {"kind": "default"}, "g5.xlarge in us-east-1a"),
        ("capacity_reservation", {}, {"kind": "default", "cancelled": True}, "state as cancelled"),
        ("capacity_reservation", {}, {"kind": "default", "starts_in": 3600}, None),
    ],
)
def test_what_ec2_reports_against_a_reservation(
    sim: Control, kind: str, changes: dict[str, Any], bought_as: dict[str, Any], said: str | None
) -> None:
    missing = only(aws(sim, kind).reservations("us-east-1"))
    assert "EC2 shows no capacity reservation" in str(missing.problem)
    sim.reserve(AWS_ID, zone="us-east-1a", instance_type="g5.xlarge", total=1, **bought_as)
    problem = only(aws(sim, kind, **changes).reservations("us-east-1")).problem
    assert problem is None if said is None else said in str(problem)


GCP_PLACE = {"region": "us-central1", "zone": "us-central1-a", "instance_type": "g2-standard-4"}


def test_a_reservation_at_google(sim: Control, tmp_path: Path) -> None:
    bought(sim, "gpus", "specific", GCP_PLACE, "gcp", total=1, ends_in=86_400)
    reservations = (entry("reservation", id="gpus", **GCP_PLACE),)
    provider = gcp_accounts.provider(sim.url, tmp_path, reservations=reservations)
    assert only(provider.reservations("us-central1")).free == 1
    image = provider.image("us-central1")
    spec = gcp_specs.spec(image=image, market=Market.RESERVED, reservation="mine", max_seconds=3600)
    vm = provider.launch("us-central1", provider.plan(spec))
    await_state(provider, "us-central1", vm.id, VmState.RUNNING)
    assert provider.get("us-central1", [vm.id])[vm.id].market is Market.RESERVED  # pyrefly: ignore[missing-attribute]
    after = only(provider.reservations("us-central1"))
    assert (after.slots, after.free, after.problem) == (1, 0, None)


def test_flex_start_waits_in_googles_queue(sim: Control, tmp_path: Path) -> None:
    provider = gcp_accounts.provider(sim.url, tmp_path, reservations=(entry("flex_start", **GCP_PLACE),))
    offered = only(provider.reservations("us-central1"))
    assert (offered.free, offered.shortest_wait, offered.longest_run) == (None, 90, 604_800)
    image = provider.image("us-central1")
    spec = gcp_specs.spec(
        image=image, market=Market.RESERVED, reservation="mine", max_seconds=3600, queue_seconds=50_000
    )
    params = provider.plan(spec)
    assert params["instance"]["params"]["requestValidForDuration"] == {"seconds": "7200"}
    vm = provider.launch("us-central1", params)
    assert vm.state is VmState.QUEUED
    await_state(provider, "us-central1", vm.id, VmState.QUEUED)
    await_state(provider, "us-central1", vm.id, VmState.RUNNING)


AZURE_PLACE = {"region": "eastus", "zone": "eastus-1", "instance_type": "Standard_NC4as_T4_v3"}


def test_a_capacity_reservation_group_at_azure(sim: Control) -> None:
    bought(sim, "gpus", "capacityReservationGroup", AZURE_PLACE, "azure", total=2)
    reservations = (entry("capacity_reservation_group", id=GROUP_ID, **AZURE_PLACE),)
    provider = AzureProvider(azure_accounts.account(sim.url, reservations=reservations), SETTINGS)
    assert only(provider.reservations("eastus")).free == 2
    spec = azure_specs.spec(image=provider.image("eastus"), market=Market.RESERVED, reservation="mine")
    vm = provider.launch("eastus", provider.plan(spec))
    assert vm.market is Market.RESERVED
    after = only(provider.reservations("eastus"))
    assert (after.slots, after.free, after.problem) == (2, 1, None)


def await_state(provider: Any, region: str, vm_id: str, state: VmState) -> None:
    assert wait_until(lambda: provider.get(region, [vm_id])[vm_id].state is state, timeout=10.0)
