"""The rights that the documentation asks for are those that the adapter uses."""

import json
import re
from pathlib import Path

from app.domain.offerings import Market
from app.settings import Settings
from cloudsim.testing import running
from tests.workers.providers.azure.accounts import account
from tests.workers.providers.azure.specs import REGION, spec
from tests.workers.providers.samples import INSTALLATION, owner, token_of
from workers.providers.azure.adapter import AzureProvider
from workers.providers.azure.leftovers import ADDRESS, GROUP, INTERFACE, VOLUME
from workers.providers.types import Leftover

PAGE = Path(__file__).parents[4] / "docs" / "providers" / "azure.md"
VERBS = {
    "Get": "read",
    "List": "read",
    "ListAll": "read",
    "ListByResourceGroup": "read",
    "InstanceView": "instanceView/read",
    "CreateOrUpdate": "write",
    "Update": "write",
    "UpdateTags": "write",
    "Delete": "delete",
    "Restart": "restart/action",
    "RetrieveBootDiagnosticsData": "retrieveBootDiagnosticsData/action",
}
KINDS = {
    "Subscriptions": "Microsoft.Resources/subscriptions",
    "VirtualMachines": "Microsoft.Compute/virtualMachines",
    "Disks": "Microsoft.Compute/disks",
    "ResourceSkus": "Microsoft.Compute/skus",
    "Usage": "Microsoft.Compute/locations/usages",
    "VirtualMachineImages": "Microsoft.Compute/locations/publishers/artifacttypes/offers/skus/versions",
    "NetworkInterfaces": "Microsoft.Network/networkInterfaces",
    "PublicIPAddresses": "Microsoft.Network/publicIPAddresses",
    "NetworkSecurityGroups": "Microsoft.Network/networkSecurityGroups",
}
WITHIN_THE_PUT = {
    "Microsoft.Network/networkInterfaces/join/action",
    "Microsoft.Network/publicIPAddresses/join/action",
    "Microsoft.Network/networkSecurityGroups/join/action",
    "Microsoft.Network/virtualNetworks/subnets/join/action",
}
"""What Azure asks of the caller when it makes a VM with what belongs to it."""
ONLY_WHEN_A_VM_GOES_WHILE_IT_IS_LISTED = {"Microsoft.Compute/virtualMachines/instanceView/read"}


def ask_everything(azure: AzureProvider) -> None:
    """Each method once, a spot VM and its end included."""
    wish = spec(image=azure.image(REGION), market=Market.SPOT, allowed_cidrs=("203.0.113.0/24",))
    vm = azure.launch(REGION, azure.plan(wish))
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
    azure.reboot(REGION, [vm.id])
    azure.terminate(REGION, [vm.id])
    azure.leftovers(REGION, INSTALLATION, None)
    for kind in (VOLUME, INTERFACE, ADDRESS, GROUP):
        azure.remove_leftover(Leftover(kind=kind, id="/x/none", region=REGION, tags={}, in_use=False))


def test_the_documented_role_allows_what_is_called_and_nothing_else() -> None:
    (text,) = re.findall(r"```json\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)
    granted = set(json.loads(text)["Actions"])
    with running(boot_seconds=0.0) as sim:
        ask_everything(AzureProvider(account(sim.url), Settings()))
        names = [name.partition(".") for name in sim.calls("azure")]
    called = {f"{KINDS[kind]}/{VERBS[verb]}" for kind, _, verb in names}
    assert called <= granted
    assert granted - called == WITHIN_THE_PUT | ONLY_WHEN_A_VM_GOES_WHILE_IT_IS_LISTED
