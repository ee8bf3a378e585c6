"""What an operation gets to see: one authenticated, decoded API call."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from cloudsim.gce.catalog import PROVIDER
from cloudsim.gce.errors import GceError, not_found
from cloudsim.gce.names import Names
from cloudsim.world import Fault, Resource, ResourceKind, Vm, World

Result = dict[str, Any]
"""The answer's JSON."""

API = "https://www.googleapis.com/compute/v1"
"""What links in answers begin with, wherever the simulator listens."""


@dataclass(slots=True)
class RenderCache:
    """VMs as JSON by id, good for one revision."""

    _rendered: dict[str, tuple[int, Result]] = field(default_factory=dict)

    def get(self, vm: Vm, render: Callable[[Vm], Result]) -> Result:
        """The VM, rendered when it changed."""
        cached = self._rendered.get(vm.id)
        if cached is not None and cached[0] == vm.revision:
            return cached[1]
        made = render(vm)
        self._rendered[vm.id] = (vm.revision, made)
        return made

    def prune(self, world: World) -> None:
        """Let go of VMs that the world forgot, when there are many."""
        if len(self._rendered) > 2 * len(world.vms) + 1_000:
            self._rendered = {vm_id: item for vm_id, item in self._rendered.items() if vm_id in world.vms}


@dataclass(frozen=True, slots=True)
class Call:
    """`path` and `query` are the URL's parameters, `body` the request's JSON. `region` is "" for a global call."""

    world: World
    names: Names
    cache: RenderCache
    caller: str
    project: str
    zone: str
    region: str
    path: Mapping[str, str]
    query: Mapping[str, str]
    body: Mapping[str, Any]
    fault: str | None
    """Code of an error that the operation, not the HTTP answer, must end with."""
    change: Fault | None = None
    """A fault that changes a launch."""

    @property
    def now(self) -> float:
        """Seconds since the epoch."""
        return self.world.now

    def vm(self) -> Vm:
        """The VM that the path names, by name or number. Raises GceError notFound."""
        name = self.path["instance"]
        named = self.names.find(self.project, self.zone, name)
        if named is None or not is_shown(named, self.now):
            raise not_found(f"projects/{self.project}/zones/{self.zone}/instances/{name}")
        return named

    def resource(self, kind: ResourceKind, name_or_id: str) -> Resource:
        """One of the project's resources, by name or number. Raises GceError notFound."""
        for candidate in self.world.resources_of(PROVIDER, self.project, self.region, kind):
            if candidate.zone == self.zone and name_or_id in (candidate.id, candidate.spec["name"]):
                return candidate
        raise not_found(f"projects/{self.project}/{kind}/{name_or_id}")

    def check_fingerprint(self, fingerprint: str, current: str) -> None:
        """Raises GceError conditionNotMet when somebody else has changed it since."""
        if fingerprint != current:
            raise GceError("conditionNotMet", "Labels fingerprint either invalid or resource labels have changed")


def is_shown(vm: Vm, now: float) -> bool:
    """A VM shows until it is gone; one that was refused after it was accepted never does."""
    return vm.alive and vm.visible_at <= now and not vm.spec.get("refused")


Handler = Callable[[Call], Result]
"""Does the work of one operation. Raises GceError, WorldError."""
