"""The rights that the documentation asks for are those that the adapter uses."""

import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from app.domain.offerings import Market
from cloudsim.gce.permissions import needed
from cloudsim.testing import running
from tests.workers.providers.contract import volumes
from tests.workers.providers.gcp.accounts import REGION, provider
from tests.workers.providers.gcp.specs import spec
from tests.workers.providers.samples import GROUP, INSTALLATION, owner, token_of
from workers.providers.errors import NotFound
from workers.providers.gcp.adapter import GcpProvider
from workers.providers.gcp.rights import CHECK_RIGHTS, RESERVATION_RIGHTS, RIGHTS
from workers.providers.types import Slot

PAGE = Path(__file__).parents[4] / "docs" / "providers" / "gcp.md"
NOT_SEEN_HERE = {
    "compute.firewalls.get": "only when a rule exists already",
    "compute.images.get": "only where an account pins an image",
}


@pytest.fixture
def granted() -> set[str]:
    return roles()[0]


def roles() -> list[set[str]]:
    """The least role in the project, and the one in the host project of a shared VPC."""
    found = []
    for text in re.findall(r"```yaml\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL):
        permissions: list[str] = yaml.safe_load(text)["includedPermissions"]
        assert permissions == sorted(set(permissions))
        found.append(set(permissions))
    return found


def test_in_a_host_project_the_network_and_its_rules_need_the_same_rights(granted: set[str]) -> None:
    of_networks = ("compute.firewalls.", "compute.networks.", "compute.subnetworks.")
    assert roles()[1] == {one for one in granted if one.startswith(of_networks)}


def ask_everything(gcp: GcpProvider) -> None:
    """Each method once, a spot VM and its end included."""
    wanted = spec(image=gcp.image(REGION), market=Market.SPOT, allowed_cidrs=("203.0.113.0/24",))
    params = gcp.plan(wanted)
    params["instance"]["disks"][0]["autoDelete"] = False
    vm = gcp.launch(REGION, params)
    grouped = gcp.launch(REGION, gcp.plan(spec(owner("lease_c"), image=gcp.image(REGION), group=GROUP)))
    slot = Slot(index=0, token="c" * 64, owner=owner("lease_b"))
    batch = gcp.plan_batch(spec(image=gcp.image(REGION)), "batch_a", "b" * 64, [slot])
    member = gcp.launch_batch(REGION, batch).vms[0]
    gcp.find_batch(REGION, batch)
    gcp.label_slots(REGION, {member.id: owner("lease_b")})
    gcp.terminate(REGION, [member.id, grouped.id])
    gcp.identity()
    gcp.offered(REGION)
    gcp.prices(REGION)
    gcp.service_quotas(REGION)
    gcp.find(REGION, token_of(owner()), owner())
    list(gcp.list(frozenset({REGION}), INSTALLATION))
    list(gcp.list_everywhere(INSTALLATION))
    gcp.ready(REGION, [vm.id])
    gcp.interruptions(frozenset({REGION}), INSTALLATION)
    gcp.set_deadline(REGION, [vm.id], owner().deadline_at)
    gcp.console_output(REGION, vm.id)
    volumes.use_each_call(gcp, REGION, vm)
    gcp.reboot(REGION, [vm.id])
    gcp.terminate(REGION, [vm.id])
    with pytest.raises(NotFound):
        gcp.reboot(REGION, [vm.id]).require()
    gcp.get(REGION, [vm.id, vm.id[:-4] + "1111"])
    gcp.find(REGION, token_of(owner()), owner())
    for one in gcp.leftovers(REGION, INSTALLATION, None).resources:
        gcp.remove_leftover(one)


def test_the_documented_role_has_the_permissions_of_the_adapter_and_of_the_check(granted: set[str]) -> None:
    assert granted == {*RIGHTS, *CHECK_RIGHTS}


def test_settings_that_need_more_permissions_say_which() -> None:
    text = PAGE.read_text(encoding="utf-8")
    assert all(f"| `{right}` |" in text for right in RESERVATION_RIGHTS)


def test_the_permissions_allow_what_is_called_and_nothing_else(tmp_path: Path) -> None:
    with running(boot_seconds=0.0, shutdown_seconds=0.0, cleanup_seconds=0.0) as sim:
        ask_everything(provider(sim.url, tmp_path))
        called: dict[str, Any] = sim.calls("gcp")
    used = {permission for call in called for permission in needed(call)}
    assert used <= set(RIGHTS)
    assert set(RIGHTS) - used == set(NOT_SEEN_HERE)
