"""The rights that the documentation asks for are those that the adapter uses."""

import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from app.domain.offerings import Market
from cloudsim.testing import running
from tests.workers.providers.gcp.accounts import REGION, provider
from tests.workers.providers.gcp.specs import spec
from tests.workers.providers.samples import INSTALLATION, owner, token_of
from workers.providers.errors import NotFound
from workers.providers.gcp.adapter import GcpProvider

PAGE = Path(__file__).parents[4] / "docs" / "providers" / "gcp.md"
VERBS = {"insert": "create", "aggregatedList": "list"}
NOT_CALLS = {
    "compute.disks.create",
    "compute.images.useReadOnly",
    "compute.instances.setMetadata",
    "compute.instances.setTags",
    "compute.networks.updatePolicy",
    "compute.networks.use",
    "compute.networks.useExternalIp",
    "compute.subnetworks.use",
    "compute.subnetworks.useExternalIp",
}
"""Rights that a call needs besides the one of its own name (Compute Engine API reference, "IAM permissions")."""
NOT_SEEN_HERE = {
    "compute.firewalls.get": "only when a rule exists already",
    "compute.images.get": "only where an account pins an image",
}

PUBLIC = {"services.skus.list"}
"""Asks for an enabled API and for no permission (Cloud Billing API reference)."""


@pytest.fixture
def granted() -> set[str]:
    (text,) = re.findall(r"```yaml\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)
    permissions: list[str] = yaml.safe_load(text)["includedPermissions"]
    assert permissions == sorted(set(permissions))
    return set(permissions)


def ask_everything(gcp: GcpProvider) -> None:
    """Each method once, a spot VM and its end included."""
    wanted = spec(image=gcp.image(REGION), market=Market.SPOT, allowed_cidrs=("203.0.113.0/24",))
    params = gcp.plan(wanted)
    params["instance"]["disks"][0]["autoDelete"] = False
    vm = gcp.launch(REGION, params)
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
    gcp.reboot(REGION, [vm.id])
    gcp.terminate(REGION, [vm.id])
    with pytest.raises(NotFound):
        gcp.reboot(REGION, [vm.id]).require()
    gcp.get(REGION, [vm.id, vm.id[:-4] + "1111"])
    gcp.find(REGION, token_of(owner()), owner())
    for one in gcp.leftovers(REGION, INSTALLATION, None).found:
        gcp.remove_leftover(one)


def permission(call: str) -> str:
    """`instances.insert` is `compute.instances.create`."""
    resource, _, verb = call.partition(".")
    return f"compute.{resource}.{VERBS.get(verb, verb)}"


def test_the_documented_role_allows_what_is_called_and_nothing_else(granted: set[str], tmp_path: Path) -> None:
    with running(boot_seconds=0.0, shutdown_seconds=0.0, cleanup_seconds=0.0) as sim:
        ask_everything(provider(sim.url, tmp_path))
        called: dict[str, Any] = sim.calls("gcp")
    used = {permission(call) for call in called if call not in PUBLIC}
    assert used <= granted
    assert granted - used == NOT_CALLS | set(NOT_SEEN_HERE)
