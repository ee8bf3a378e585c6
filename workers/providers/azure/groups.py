"""What the members of a group share at Azure: an application security group, a proximity placement group, an availability set.

InfiniBand connects only VMs of one availability set. An availability set has no zones and takes no spot VMs. Every launch
creates what its VM needs, from parameters stored with those of the VM, under names derived from the group's id and the
region. A repeat and the other members find it. All of it costs nothing. gpulease removes it as leftover resources when
nothing uses it. A refused launch leaves it: other members may be about to use it.
"""

import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, cast

from app.domain import tags
from app.domain.offerings import Market, NetworkFabric
from workers.providers.azure import catalogue, resource_tags
from workers.providers.azure.calls import Document, known
from workers.providers.azure.clients import Group
from workers.providers.azure.errors import translated
from workers.providers.azure.settings import AzureAccount
from workers.providers.common.recent import Recent
from workers.providers.errors import InvalidSpec, NotFound, NotOffered, NotReady, OutcomeUnknown, Refused
from workers.providers.types import LaunchSpec, Params

PART = "group"
"""Key in the stored parameters: bodies by kind, in the order in which they are created."""
MEMBERS, NEAR, SET = "applicationSecurityGroup", "proximityPlacementGroup", "availabilitySet"
"""The kinds."""

_PATHS = {
    MEMBERS: "Microsoft.Network/applicationSecurityGroups",
    NEAR: "Microsoft.Compute/proximityPlacementGroups",
    SET: "Microsoft.Compute/availabilitySets",
}
_SUFFIXES = {MEMBERS: "asg", NEAR: "ppg", SET: "set"}
_SAME = (tags.INSTALLATION, tags.SHARED)
_MISSING = frozenset({"InvalidResourceReference", "NotFound", "ResourceNotFound"})
_NOT_READY_SECONDS = 1.0


def kinds(spec: LaunchSpec) -> tuple[str, ...]:
    """What the VM shares with the other members. A capacity reservation places its VMs itself.

    Raises NotOffered when the group requires InfiniBand and its VMs cannot be in one availability set.
    """
    group = spec.group
    if group is None:
        return ()
    known_type = catalogue.load().types.get(spec.instance_type)
    has_fabric = known_type is not None and known_type.network_fabric is NetworkFabric.RDMA
    fabric = has_fabric and group.interconnect != "none" and spec.market is Market.ON_DEMAND
    if group.interconnect == "required" and spec.market is Market.SPOT:
        message = "Azure connects spot VMs by no InfiniBand: an availability set does not take them"
        raise NotOffered(message, code="NoInfiniBandForSpot")
    if spec.market is Market.RESERVED:
        return (MEMBERS,)
    if fabric:
        return (MEMBERS, NEAR, SET)
    return (MEMBERS, NEAR) if group.placement == "cluster" else (MEMBERS,)


def plan(spec: LaunchSpec, account: AzureAccount, group_id: str, wanted: tuple[str, ...]) -> Params:
    """{"group": …} for the member of a group, else nothing. `group_id`: of the resource group."""
    if not wanted:
        return {}
    head = {"location": spec.region, "tags": resource_tags.of_shared(spec, account)}
    near = {"properties": {"proximityPlacementGroupType": "Standard"}}
    placed = {"proximityPlacementGroup": {"id": resource_id(spec, group_id, NEAR)}}
    bodies: dict[str, dict[str, Any]] = {
        MEMBERS: {**head, "properties": {}},
        NEAR: {**head, **near},
        SET: {**head, "sku": {"name": "Aligned"}, "properties": placed},
    }
    return {PART: {kind: {"name": _name(spec, kind), "body": bodies[kind]} for kind in wanted}}


def vm_properties(spec: LaunchSpec, group_id: str, wanted: tuple[str, ...]) -> dict[str, Any]:
    """The members of a VM's properties that place it. A VM in an availability set names its proximity group too."""
    return {kind: {"id": resource_id(spec, group_id, kind)} for kind in (NEAR, SET) if kind in wanted}


def resource_id(spec: LaunchSpec, group_id: str, kind: str) -> str:
    """Azure's id of what the members share."""
    return f"{group_id}/providers/{_PATHS[kind]}/{_name(spec, kind)}"


def _name(spec: LaunchSpec, kind: str) -> str:
    """With the region: a group that does not form in one region may form in another."""
    assert spec.group is not None
    return f"gpulease-{spec.group.group_id}-{spec.region}-{_SUFFIXES[kind]}"


class AzureGroupResources:
    """Creates what members share. Remembers for a minute that it exists, so that many members cost few calls."""

    def __init__(self, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._known: Recent[bool] = Recent(monotonic)

    @contextmanager
    def ensure(self, group: Group, shared: Params | None) -> Iterator[None]:
        """Creates `shared`, a part of the stored parameters of a launch, before the block. None: does nothing.

        Raises NotReady when Azure does not know what was created: the repeated launch creates it again. Raises
        ProviderError.
        """
        wanted = {} if shared is None else shared
        for kind, one in wanted.items():
            if not self._known.get(one["name"]):
                _ensure(group, kind, one)
                self._known.put(one["name"], value=True)
        try:
            yield
        except Refused as error:
            names = [one["name"] for one in wanted.values() if one["name"] in error.message]
            if error.code not in _MISSING or not names:
                raise
            for name in names:
                self._known.forget(name)
            raise NotReady(error.message, code=error.code, retry_after=_NOT_READY_SECONDS) from None


def _ensure(group: Group, kind: str, wanted: Params) -> None:
    """Creates the resource, or only reads it if it exists."""
    found = known(_operations(group, kind).get, group.name, wanted["name"])
    if found is None:
        found = _made(group, kind, wanted)
    theirs, ours = resource_tags.read(found.get("tags")), wanted["body"]["tags"]
    if any(theirs.get(key) != ours[key] for key in _SAME):
        raise OutcomeUnknown(f"{wanted['name']} exists and is not ours", code="ForeignResource")
    state = (found.get("properties") or {}).get("provisioningState")
    if state == "Failed":
        raise Refused(f"Azure could not make {wanted['name']}", code="SharedResourceFailed")
    if state not in (None, "Succeeded"):
        raise NotReady(f"{wanted['name']} is not ready yet", code="SharedNotReady", retry_after=_NOT_READY_SECONDS)


def _operations(group: Group, kind: str) -> Any:
    if kind == MEMBERS:
        return group.network.application_security_groups
    return group.compute.proximity_placement_groups if kind == NEAR else group.compute.availability_sets


def _made(group: Group, kind: str, wanted: Params) -> Document:
    name, body = wanted["name"], wanted["body"]
    try:
        with translated():
            operations = _operations(group, kind)
            if kind != MEMBERS:
                return cast(Document, operations.create_or_update(group.name, name, body))
            made: Document = operations.begin_create_or_update(group.name, name, body, polling=False).result()
    except NotFound as error:
        raise InvalidSpec(error.message, code=error.code) from None
    return made


def remove(group: Group, kind: str, name: str) -> None:
    """Requests deletion. Azure refuses it while something uses the resource."""
    operations = _operations(group, kind)
    if kind == MEMBERS:
        operations.begin_delete(group.name, name, polling=False)
    else:
        operations.delete(group.name, name)


def holds_vms(document: Mapping[str, Any]) -> bool:
    """Whether an availability set or a proximity placement group is in use, as its own document shows."""
    properties = document.get("properties") or {}
    return any(properties.get(held) for held in ("virtualMachines", "availabilitySets"))


def references(document: Mapping[str, Any]) -> Iterator[str]:
    """Ids, in lower case, of the application security groups that an interface or a security group names."""
    properties = document.get("properties") or {}
    for one in (*(properties.get("ipConfigurations") or ()), *(properties.get("securityRules") or ())):
        inner = one.get("properties") or {}
        for member in (
            "applicationSecurityGroups",
            "sourceApplicationSecurityGroups",
            "destinationApplicationSecurityGroups",
        ):
            yield from (str(named["id"]).lower() for named in inner.get(member) or ())
