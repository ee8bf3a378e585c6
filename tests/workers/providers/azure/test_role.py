"""The rights that the documentation asks for are those that the adapter uses."""

import json
import re
from pathlib import Path

from app.domain.offerings import Market
from cloudsim.arm.permissions import WITHIN_THE_PUT, needed
from cloudsim.testing import running
from tests.harness.cached_settings import read_settings
from tests.workers.providers.azure.accounts import account
from tests.workers.providers.azure.specs import REGION, spec
from tests.workers.providers.contract import volumes
from tests.workers.providers.samples import GROUP as MEMBER
from tests.workers.providers.samples import INSTALLATION, owner, token_of
from workers.providers.azure.adapter import AzureProvider
from workers.providers.azure.leftovers import ADDRESS, GROUP, INTERFACE, MEMBERS, NEAR, SET, VOLUME
from workers.providers.azure.rights import CHECK_RIGHTS, RESERVATION_RIGHTS, RIGHTS
from workers.providers.types import Leftover

PAGE = Path(__file__).parents[4] / "docs" / "providers" / "azure.md"
_OURS = "/subscriptions/s/resourceGroups/g/providers/Microsoft.Compute"
OWN_IMAGES = {"shared": f"{_OURS}/galleries/g/images/gpu", "own": f"{_OURS}/images/gpu"}
ND = "Standard_ND96isr_H100_v5"
"""A size with InfiniBand."""
ONLY_WHEN_A_VM_GOES_WHILE_IT_IS_LISTED = {"Microsoft.Compute/virtualMachines/instanceView/read"}


def ask_everything(azure: AzureProvider) -> None:
    """Each method once, a spot VM and its end included."""
    wish = spec(image=azure.image(REGION), market=Market.SPOT, allowed_cidrs=("203.0.113.0/24",))
    vm = azure.launch(REGION, azure.plan(wish))
    azure.launch(REGION, azure.plan(spec(owner("lease_b"), image=azure.image(REGION), instance_type=ND, group=MEMBER)))
    for named in OWN_IMAGES:
        azure.image(REGION, named)
    azure.identity()
    azure.offered(REGION)
    azure.service_quotas(REGION)
    azure.find(REGION, token_of(owner()), owner())
    azure.get(REGION, [vm.id])
    list(azure.list(frozenset({REGION}), INSTALLATION))
    list(azure.list_everywhere(INSTALLATION))
    azure.ready(REGION, [vm.id])
    azure.interruptions(frozenset({REGION}), INSTALLATION)
    azure.set_deadline(REGION, [vm.id], owner().deadline_at)
    azure.console_output(REGION, vm.id)
    volumes.use_each_call(azure, REGION, vm)
    azure.reboot(REGION, [vm.id])
    azure.terminate(REGION, [vm.id])
    azure.leftovers(REGION, INSTALLATION, None)
    for kind in (VOLUME, INTERFACE, ADDRESS, GROUP, MEMBERS, NEAR, SET):
        azure.remove_leftover(Leftover(kind=kind, id="/x/none", region=REGION, tags={}, in_use=False))


def test_settings_that_need_more_rights_say_which() -> None:
    text = PAGE.read_text(encoding="utf-8")
    assert "`Microsoft.ManagedIdentity/userAssignedIdentities/assign/action`" in text
    assert "`Microsoft.Compute/diskEncryptionSets/read`" in text
    assert all(f"`{right}`" in text for right in RESERVATION_RIGHTS)


def test_the_documented_role_has_the_actions_of_the_adapter_and_of_the_check() -> None:
    (text,) = re.findall(r"```json\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)
    assert set(json.loads(text)["Actions"]) == {*RIGHTS, *CHECK_RIGHTS}


def test_the_actions_allow_what_is_called_and_nothing_else() -> None:
    with running(boot_seconds=0.0) as sim:
        ask_everything(AzureProvider(account(sim.url, images=OWN_IMAGES), read_settings()))
        called = {needed(operation) for operation in sim.calls("azure")}
    assert called <= set(RIGHTS)
    assert set(RIGHTS) - called == {*WITHIN_THE_PUT, *ONLY_WHEN_A_VM_GOES_WHILE_IT_IS_LISTED}
