"""What each setting of an account changes in a launch, and what becomes of it at a simulated Resource Manager."""

from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import pytest

from app.domain import tags
from app.local.waiting import wait_until
from cloudsim.testing import Control, running
from tests.harness.cached_settings import read_settings
from tests.workers.providers.azure.accounts import SUBSCRIPTION, account
from tests.workers.providers.azure.specs import REGION, spec
from tests.workers.providers.azure.strict import checked
from tests.workers.providers.azure.test_launch import interface, plan
from tests.workers.providers.samples import INSTALLATION, owner
from workers.providers import errors
from workers.providers.azure.adapter import AzureProvider
from workers.providers.types import Leftover, Vm

IN_GROUP = f"/subscriptions/{SUBSCRIPTION}/resourceGroups/shared/providers"
IDENTITY = f"{IN_GROUP}/Microsoft.ManagedIdentity/userAssignedIdentities/gpulease-node"
ENCRYPTION_SET = f"{IN_GROUP}/Microsoft.Compute/diskEncryptionSets/gpulease-disks"
SETS = dict.fromkeys(("eastus", "westeurope"), ENCRYPTION_SET)
EVERYTHING = {
    "identity_ids": (IDENTITY,),
    "disk_encryption_set_ids": SETS,
    "disk_type": "StandardSSD_LRS",
    "data_disk_gib": 500,
    "public_addresses": False,
    "tags": {"CostCenter": "4711"},
}


def storage(**settings: Any) -> Any:
    return plan(settings)["vm"]["properties"]["storageProfile"]


def test_identities_are_assigned_to_the_vm() -> None:
    assigned = plan({"identity_ids": (IDENTITY,)})["vm"]["identity"]
    assert assigned == {"type": "UserAssigned", "userAssignedIdentities": {IDENTITY: {}}}


def test_the_encryption_set_and_the_type_are_those_of_every_disk() -> None:
    profile = storage(disk_encryption_set_ids=SETS, disk_type="Premium_ZRS", data_disk_gib=500)
    for disk in (profile["osDisk"], *profile["dataDisks"]):
        assert disk["managedDisk"] == {
            "storageAccountType": "Premium_ZRS",
            "diskEncryptionSet": {"id": ENCRYPTION_SET},
        }
    assert storage()["osDisk"]["managedDisk"] == {"storageAccountType": "Premium_LRS"}


def test_a_data_disk_is_empty_and_deleted_with_the_vm() -> None:
    params = plan({"data_disk_gib": 500})
    (disk,) = params["vm"]["properties"]["storageProfile"]["dataDisks"]
    assert (disk["createOption"], disk["deleteOption"], disk["diskSizeGB"]) == ("Empty", "Delete", 500)
    assert disk["name"] == f"{params['name']}-data"
    assert "dataDisks" not in storage()


def test_an_account_without_public_addresses_gives_none() -> None:
    configuration = interface(plan({"public_addresses": False}))["properties"]["ipConfigurations"][0]["properties"]
    assert "publicIPAddressConfiguration" not in configuration


def test_other_settings_are_another_request_under_the_same_name() -> None:
    hashes = {plan(changes)["vm"]["tags"]["gpulease-request"] for changes in ({}, EVERYTHING, {"data_disk_gib": 100})}
    assert len(hashes) == 3


@pytest.fixture(scope="module")
def cloud() -> Iterator[Control]:
    with running(boot_seconds=0.0, shutdown_seconds=0.0, cleanup_seconds=0.0) as sim:
        yield sim


@pytest.fixture
def sim(cloud: Control) -> Control:
    cloud.reset()
    return cloud


def connect(sim: Control, **settings: Any) -> AzureProvider:
    return checked(AzureProvider(account(sim.url, **settings), read_settings(call_timeout=60.0)))


def launch(azure: AzureProvider, **changes: Any) -> Vm:
    return azure.launch(REGION, azure.plan(spec(image=azure.image(REGION), **changes)))


def left(azure: AzureProvider) -> list[Leftover]:
    return list(azure.leftovers(REGION, INSTALLATION, None).resources)


def test_a_vm_with_everything_leaves_nothing(sim: Control) -> None:
    azure = connect(sim, **EVERYTHING)
    vm = launch(azure)
    assert sorted(one.kind for one in left(azure)) == ["network_interface", "volume", "volume"]
    assert all(one.in_use and one.tags["CostCenter"] == "4711" for one in left(azure))
    later = owner().deadline_at + timedelta(hours=1)
    azure.set_deadline(REGION, [vm.id], later).require()
    assert {one.tags[tags.DEADLINE] for one in left(azure)} == {str(int(later.timestamp()))}
    assert azure.get(REGION, [vm.id])[vm.id].public_ip is None  # pyrefly: ignore[missing-attribute]
    azure.terminate(REGION, [vm.id]).require()
    assert wait_until(lambda: not left(azure), timeout=10)


def test_a_data_disk_that_stays_is_found_and_removed(sim: Control) -> None:
    azure = connect(sim, data_disk_gib=500)
    params = azure.plan(spec(image=azure.image(REGION)))
    params["vm"]["properties"]["storageProfile"]["dataDisks"][0]["deleteOption"] = "Detach"
    azure.terminate(REGION, [azure.launch(REGION, params).id]).require()
    assert wait_until(lambda: [one.in_use for one in left(azure)] == [False], timeout=10)
    azure.remove_leftover(left(azure)[0])
    assert not left(azure)


@pytest.mark.parametrize(
    "settings",
    [
        {"identity_ids": (IDENTITY.replace("gpulease-node", "unknown"),)},
        {"disk_encryption_set_ids": dict.fromkeys(SETS, ENCRYPTION_SET.replace("gpulease-disks", "unknown"))},
    ],
)
def test_what_does_not_exist_is_a_bad_request(sim: Control, settings: dict[str, Any]) -> None:
    azure = connect(sim, **settings)
    with pytest.raises(errors.InvalidSpec):
        launch(azure, allowed_cidrs=("203.0.113.0/24",))
    assert sim.instances(provider="azure") == []
    assert left(azure) == []


def test_an_attempt_that_an_older_version_planned_is_sent_as_stored(sim: Control) -> None:
    """Settings that changed since do not change stored parameters."""
    old, new = connect(sim), connect(sim, **EVERYTHING)
    stored = old.plan(spec(image=old.image(REGION), allowed_cidrs=("203.0.113.0/24",)))
    assert new.launch(REGION, stored).id == old.launch(REGION, stored).id
