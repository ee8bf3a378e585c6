"""What an operation gets to see: one authenticated, decoded API call."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from cloudsim.credentials import Credentials
from cloudsim.ec2.catalog import PROVIDER
from cloudsim.ec2.encode import EncodedXml
from cloudsim.world import Fault, Resource, ResourceKind, Vm, World
from cloudsim.world.vm_index import VmIndex

Result = dict[str, Any]
"""Output members by the names of botocore's model."""


@dataclass(slots=True)
class RenderCache:
    """Encoded VMs by id, good for one revision."""

    _rendered: dict[str, tuple[int, EncodedXml]] = field(default_factory=dict)

    def get(self, vm: Vm, render: Callable[[Vm], EncodedXml]) -> EncodedXml:
        """The VM's XML, rendered when it changed."""
        cached = self._rendered.get(vm.id)
        if cached is not None and cached[0] == vm.revision:
            return cached[1]
        raw = render(vm)
        self._rendered[vm.id] = (vm.revision, raw)
        return raw

    def prune(self, world: World) -> None:
        """Let go of VMs that the world forgot, when there are many."""
        if len(self._rendered) > 2 * len(world.vms) + 1_000:
            self._rendered = {vm_id: item for vm_id, item in self._rendered.items() if vm_id in world.vms}


@dataclass(frozen=True, slots=True)
class Call:
    """`params` are decoded input members by the names of botocore's model. `change`: a fault that changes a launch of several VMs."""

    world: World
    credentials: Credentials
    cache: RenderCache
    render_reservation: Callable[[Vm], EncodedXml]
    access_key: str
    account: str
    region: str
    params: dict[str, Any]
    change: Fault | None = None

    @property
    def now(self) -> float:
        """Seconds since the epoch."""
        return self.world.now

    @property
    def shelf(self) -> VmIndex:
        """The caller's VMs in the region."""
        return self.world.shelf(PROVIDER, self.account, self.region)

    @property
    def zones(self) -> tuple[str, ...]:
        """The region's zones."""
        return self.world.catalogs[PROVIDER].regions[self.region]

    def vm(self, vm_id: str) -> Vm | None:
        """One of the caller's VMs, as the API shows it."""
        return self.world.visible(PROVIDER, self.account, self.region, vm_id)

    def resources(self, kind: ResourceKind) -> list[Resource]:
        """The caller's resources of one kind in the region."""
        return list(self.world.resources_of(PROVIDER, self.account, self.region, kind))

    def listed(self, kind: ResourceKind) -> list[Resource]:
        """As `resources`, without those that are too fresh for a list."""
        latest = self.now - self.world.settings.resource_lag_seconds
        return [resource for resource in self.resources(kind) if resource.created_at <= latest]

    def resource(self, kind: ResourceKind, resource_id: str) -> Resource | None:
        """One of the caller's resources."""
        named = self.world.resources.get(resource_id)
        where = (PROVIDER, self.account, self.region, kind)
        if named is None or (named.provider, named.account, named.region, named.kind) != where:
            return None
        return named


Handler = Callable[[Call], Result]
"""Does the work of one operation. Raises AwsError, WorldError."""
