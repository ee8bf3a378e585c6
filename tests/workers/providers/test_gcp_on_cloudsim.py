"""The contract, for Compute Engine against the simulated cloud."""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import httpx
import pytest

from cloudsim.gce.credentials import issue
from cloudsim.testing import Control, running
from tests.workers.providers import contract
from tests.workers.providers.contract import Power
from tests.workers.providers.gcp.accounts import EMAIL, PROJECT, REGION, ZONE, provider
from tests.workers.providers.gcp.discovery import checked
from tests.workers.providers.samples import owner
from workers.providers import base
from workers.providers.base import Image, Params, Provider

LACKS = {Power.NOTICES: "tells only the VM, half a minute before", Power.HELD: "removes a firewall rule in use"}

FAULTS = {
    base.InsufficientCapacity: "ZONE_RESOURCE_POOL_EXHAUSTED_WITH_DETAILS",
    base.ProviderQuotaExceeded: "QUOTA_EXCEEDED",
    base.InvalidSpec: "invalid",
    base.CredentialsRejected: "forbidden",
    base.Throttled: "rateLimitExceeded",
    base.OutcomeUnknown: "backendError",
}
GCP = {"provider": "gcp"}


class OnCloudsim:
    """`Backend` over the control API."""

    region = REGION
    zone = ZONE
    other_zone = "us-central1-b"
    instance_type = "g2-standard-4"
    short_timeout = 1.0
    refusals = tuple(kind for kind in FAULTS if kind is not base.OutcomeUnknown)
    belonging_kinds = frozenset({"volume"})
    firewall_stages = ("IPv4", "IPv6")
    page = 500

    def __init__(self, sim: Control, folder: Path) -> None:
        self.provider: Provider = checked(provider(sim.url, folder))
        self.impatient: Provider = provider(sim.url, folder, call_timeout=self.short_timeout)
        self.sim = sim
        self._image: Image | None = None

    def image(self) -> Image:
        self._image = self._image or self.provider.image(self.region)
        return self._image

    def alive(self) -> Mapping[str, Mapping[str, str]]:
        found = self.sim.instances(alive="true", **GCP)
        return {f"{one['zone']}:{one['name']}:{one['id']}": one["tags"] for one in found}

    def belongings(self, vm_id: str) -> Mapping[str, Mapping[str, str]]:
        number = vm_id.rpartition(":")[2]
        found = self.sim.resources(**GCP)
        return {one["kind"]: one["tags"] for one in found if one["instance_id"] == number}

    def refuse(self, kind: type[base.ProviderError]) -> None:
        self.sim.fault("instances.insert", "error", code=FAULTS[kind], **GCP)

    def refuse_late(self) -> None:
        self.sim.settings(refusal_seconds=0.3)
        self.sim.capacity(0, zone=self.zone, **GCP)

    def lose_next_launch_reply(self) -> None:
        self.sim.fault("instances.insert", "lose_reply", **GCP)

    def hang_next_launch(self) -> None:
        self.sim.fault("instances.insert", "hang", **GCP)

    def exhaust(self, zone: str) -> None:
        self.sim.capacity(0, zone=zone, **GCP)

    def interrupt(self, vm_id: str, notice_seconds: float) -> None:
        self.sim.interrupt(vm_id.rpartition(":")[2], notice_seconds, **GCP)

    def end_from_outside(self, vm_id: str) -> None:
        self.sim.stop(vm_id.rpartition(":")[2], **GCP)

    def plant(self, count: int, tags: Mapping[str, str]) -> None:
        labels = {key.lower(): value.lower().replace("'", "_") for key, value in tags.items()}
        place = {"region": self.region, "zone": self.zone, "instance_type": self.instance_type}
        self.sim.plant(**place, tags=labels, count=count, **GCP)

    def firewalls(self, vm_id: str) -> Mapping[str, Sequence[contract.Inbound]]:
        name = vm_id.split(":")[1]
        url = f"{self.sim.url}/compute/v1/projects/{PROJECT}/global/firewalls"
        rules = httpx.get(url, headers={"Authorization": f"Bearer {issue(EMAIL)}"}).json().get("items", [])
        return {one["name"]: list(_inbound(one)) for one in rules if name in one["targetTags"]}

    def break_firewall(self, stage: str) -> None:
        if stage == "IPv6":
            self.sim.fault("firewalls.insert", "delay", delay_seconds=0.0, **GCP)
        self.sim.fault("firewalls.insert", "lose_reply", **GCP)

    def reboots(self) -> int:
        return self.sim.calls("gcp").get("instances.reset", 0)

    def keeping_the_disk(self, params: Params) -> Params:
        (disk,) = params["instance"]["disks"]
        return params | {"instance": params["instance"] | {"disks": [disk | {"autoDelete": False}]}}


def _inbound(rule: Mapping[str, Any]) -> Iterator[contract.Inbound]:
    for allowed in rule["allowed"]:
        for port in allowed["ports"]:
            for network in rule["sourceRanges"]:
                yield allowed["IPProtocol"], int(port), int(port), network


@pytest.fixture(scope="module")
def cloud(tmp_path_factory: pytest.TempPathFactory) -> Iterator[OnCloudsim]:
    with running(boot_seconds=0.6, shutdown_seconds=0.05, cleanup_seconds=0.05) as sim:
        yield OnCloudsim(sim, tmp_path_factory.mktemp("gcp"))


@pytest.fixture
def backend(cloud: OnCloudsim) -> OnCloudsim:
    cloud.sim.reset()
    return cloud


@pytest.mark.parametrize("case", contract.cases(LACKS))
def test_contract(case: contract.Case, backend: OnCloudsim) -> None:
    case(backend)
