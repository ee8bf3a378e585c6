"""What an operation gets to see: one authenticated, decoded API call; and what it answers."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from cloudsim.arm.catalog import PROVIDER
from cloudsim.world import Fault, Resource, ResourceKind, Vm, VmState, World

Document = dict[str, Any]
COMPUTE, NETWORK = "Microsoft.Compute", "Microsoft.Network"
VMS = f"{COMPUTE}/virtualMachines"
TYPES = {
    ResourceKind.VOLUME: f"{COMPUTE}/disks",
    ResourceKind.NETWORK_INTERFACE: f"{NETWORK}/networkInterfaces",
    ResourceKind.ADDRESS: f"{NETWORK}/publicIPAddresses",
    ResourceKind.SECURITY_GROUP: f"{NETWORK}/networkSecurityGroups",
    ResourceKind.APPLICATION_SECURITY_GROUP: f"{NETWORK}/applicationSecurityGroups",
    ResourceKind.PLACEMENT_GROUP: f"{COMPUTE}/proximityPlacementGroups",
    ResourceKind.AVAILABILITY_SET: f"{COMPUTE}/availabilitySets",
}


@dataclass(frozen=True, slots=True)
class Answer:
    """Status, JSON (None: no body) and headers."""

    body: Any = None
    status: int = 200
    headers: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    """`base`: the server's own address. `path`: the parts of the path that vary. `query` in lower case."""

    world: World
    base: str
    url: str
    subscription: str
    path: Mapping[str, str]
    query: Mapping[str, str]
    headers: Mapping[str, str]
    body: Document
    change: Fault | None = None
    """A fault that changes what the call does."""

    @property
    def now(self) -> float:
        """Seconds since the epoch."""
        return self.world.now

    @property
    def group(self) -> str:
        """The resource group in the path."""
        return self.path["group"]

    @property
    def name(self) -> str:
        """The resource's name in the path."""
        return self.path["name"]

    def id_of(self, kind: str, name: str, group: str | None = None) -> str:
        """A resource's id, `kind` as in `Microsoft.Compute/disks`."""
        return f"/subscriptions/{self.subscription}/resourceGroups/{group or self.group}/providers/{kind}/{name}"

    def token_key(self, name: str) -> str:
        """The world's key of a VM's name, unique in its group."""
        return f"{PROVIDER}/{self.subscription}/{self.group.lower()}/{name.lower()}"

    def existing(self, name: str) -> Vm | None:
        """The VM of this name, however fresh."""
        vm = self.world.by_token(self.token_key(name))
        return vm if vm is not None and vm.state is not VmState.TERMINATED else None

    def vms(self) -> list[Vm]:
        """The subscription's VMs that show, oldest first."""
        shelves = (
            self.world.shelf(PROVIDER, self.subscription, region) for region in self.world.catalogs[PROVIDER].regions
        )
        every = (vm for shelf in shelves for vm in shelf.after(0))
        return [vm for vm in every if vm.visible_at <= self.now and vm.state is not VmState.TERMINATED]

    def resources(self, kind: ResourceKind) -> list[Resource]:
        """Those of the path's group, oldest first."""
        prefix = self.id_of(TYPES[kind], "")
        return [
            candidate
            for candidate in self.world.resources.values()
            if candidate.provider == PROVIDER and candidate.kind is kind and candidate.id.startswith(prefix)
        ]

    def resource(self, kind: ResourceKind) -> Resource | None:
        """The one that the path names."""
        named = self.world.resources.get(self.id_of(TYPES[kind], self.name))
        return named if named is not None and named.kind is kind else None


Handler = Callable[[Call], Answer]
"""Does the work of one operation. Raises ArmError, WorldError."""
