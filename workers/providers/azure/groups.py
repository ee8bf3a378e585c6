"""What VMs share at Azure: network security groups, and what places the members of a group.

A VM that would have no other network security group is in the installation's own one of the region, which lets nothing in.
Azure's default rules would otherwise let in all VMs of the virtual network. Members of a group have one of the group's,
which lets in the members: those of the group's application security group.

InfiniBand connects only VMs of one availability set. An availability set has no zones and takes no spot VMs.

Every launch creates what its VM needs, from parameters stored with those of the VM. The names contain the region and the
id of the group or of the installation. A repeat and the other VMs find it. All of it costs nothing. gpulease removes what a
group shares as leftover resources when nothing uses it. The installation's network security group stays. A refused launch
leaves all of it: other VMs may be about to use it.
"""

import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, cast

from app.domain import tags
from app.domain.offerings import Market, NetworkFabric
from workers.providers.azure import catalogue, firewall, resource_tags
from workers.providers.azure.calls import Document, known
from workers.providers.azure.clients import Group
from workers.providers.azure.errors import translated
from workers.providers.azure.settings import AzureAccount
from workers.providers.common.recent import MinuteCache
from workers.providers.errors import InvalidSpec, NotFound, NotOffered, NotReady, OutcomeUnknown, Refused
from workers.providers.types import LaunchSpec, Params

PART = "group"
"""Key in the stored parameters: bodies by kind. The database keeps no order of members."""
MEMBERS, RULES = "applicationSecurityGroup", "networkSecurityGroup"
NEAR, SET = "proximityPlacementGroup", "availabilitySet"
"""The kinds."""

_PATHS = {
    MEMBERS: "Microsoft.Network/applicationSecurityGroups",
    RULES: "Microsoft.Network/networkSecurityGroups",
    NEAR: "Microsoft.Compute/proximityPlacementGroups",
    SET: "Microsoft.Compute/availabilitySets",
}
"""In the order of creation: a rule names the members, and a set the group near which it is."""
_SUFFIXES = {MEMBERS: "asg", RULES: "nsg", NEAR: "ppg", SET: "set"}
_NETWORK = frozenset({MEMBERS, RULES})
_SAME = (tags.INSTALLATION, tags.SHARED)
_MISSING = frozenset({"InvalidResourceReference", "NotFound", "ResourceNotFound"})
_NOT_READY_SECONDS = 1.0


def kinds(spec: LaunchSpec, account: AzureAccount) -> tuple[str, ...]:
    """What the VM shares with other VMs, in the order of creation. A capacity reservation places its VMs itself.

    An interface has one network security group: that of the VM's networks, else that of its group, else the account's.
    Raises NotOffered when the group requires InfiniBand and its VMs cannot be in one availability set.
    """
    group = spec.group
    rules = () if spec.allowed_cidrs else (RULES,)
    if group is None:
        return () if spec.region in account.network_security_group_ids else rules
    known_type = catalogue.load().types.get(spec.instance_type)
    has_fabric = known_type is not None and known_type.network_fabric is NetworkFabric.RDMA
    fabric = has_fabric and group.interconnect != "none" and spec.market is Market.ON_DEMAND
    if group.interconnect == "required" and spec.market is Market.SPOT:
        message = "Azure connects spot VMs by no InfiniBand: an availability set does not take them"
        raise NotOffered(message, code="NoInfiniBandForSpot")
    if spec.market is Market.RESERVED:
        return (MEMBERS, *rules)
    if fabric:
        return (MEMBERS, *rules, NEAR, SET)
    return (MEMBERS, *rules, NEAR) if group.placement == "cluster" else (MEMBERS, *rules)


def plan(spec: LaunchSpec, account: AzureAccount, group_id: str, shared_kinds: tuple[str, ...]) -> Params:
    """{"group": …} with what `kinds` names, else nothing. `group_id`: of the resource group."""
    if not shared_kinds:
        return {}
    if spec.group is None:
        labels, members = resource_tags.of_installation(spec, account), None
    else:
        labels, members = resource_tags.of_shared(spec, account), resource_id(spec, group_id, MEMBERS)
    head = {"location": spec.region, "tags": labels}
    near = {"properties": {"proximityPlacementGroupType": "Standard"}}
    placed = {"proximityPlacementGroup": {"id": resource_id(spec, group_id, NEAR)}}
    bodies: dict[str, dict[str, Any]] = {
        MEMBERS: {**head, "properties": {}},
        RULES: firewall.body(spec, labels, members),
        NEAR: {**head, **near},
        SET: {**head, "sku": {"name": "Aligned"}, "properties": placed},
    }
    return {PART: {kind: {"name": _name(spec, kind), "body": bodies[kind]} for kind in shared_kinds}}


def vm_properties(spec: LaunchSpec, group_id: str, shared_kinds: tuple[str, ...]) -> dict[str, Any]:
    """The members of a VM's properties that place it. A VM in an availability set names its proximity group too."""
    return {kind: {"id": resource_id(spec, group_id, kind)} for kind in (NEAR, SET) if kind in shared_kinds}


def resource_id(spec: LaunchSpec, group_id: str, kind: str) -> str:
    """Azure's id of what VMs share."""
    return f"{group_id}/providers/{_PATHS[kind]}/{_name(spec, kind)}"


def _name(spec: LaunchSpec, kind: str) -> str:
    """With the region: a group that does not form in one region may form in another."""
    if spec.group is None:
        return f"gpulease-{spec.owner.installation}-{spec.region}-closed"
    return f"gpulease-{spec.group.group_id}-{spec.region}-{_SUFFIXES[kind]}"


class AzureGroupResources:
    """Creates what VMs share. Remembers for a minute that it exists, so that many VMs cost few calls."""

    def __init__(self, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._known: MinuteCache[bool] = MinuteCache(monotonic)

    @contextmanager
    def ensure(self, group: Group, shared: Params | None) -> Iterator[None]:
        """Creates `shared`, a part of the stored parameters of a launch, before the block. None: does nothing.

        Raises NotReady when Azure does not know what was created: the repeated launch creates it again. Raises
        InvalidSpec when somebody has opened the network security group: no VM starts then. Raises ProviderError.
        """
        resources = {} if shared is None else shared
        try:
            for kind in _PATHS:
                parameters = resources.get(kind)
                if parameters is not None and not self._known.get(parameters["name"]):
                    _ensure(group, kind, parameters)
                    self._known.put(parameters["name"], value=True)
            yield
        except Refused as error:
            names = [parameters["name"] for parameters in resources.values() if parameters["name"] in error.message]
            if error.code not in _MISSING or not names:
                raise
            for name in names:
                self._known.forget(name)
            raise NotReady(error.message, code=error.code, retry_after=_NOT_READY_SECONDS) from None


def _ensure(group: Group, kind: str, parameters: Params) -> None:
    """Creates the resource, or only reads it if it exists."""
    document = known(_operations(group, kind).get, group.name, parameters["name"])
    if document is None:
        document = _made(group, kind, parameters)
    theirs, ours = resource_tags.read(document.get("tags")), parameters["body"]["tags"]
    if any(theirs.get(key) != ours.get(key) for key in _SAME):
        raise OutcomeUnknown(f"{parameters['name']} exists and is not ours", code="ForeignResource")
    state = (document.get("properties") or {}).get("provisioningState")
    if state == "Failed":
        raise Refused(f"Azure could not make {parameters['name']}", code="SharedResourceFailed")
    if state not in (None, "Succeeded"):
        raise NotReady(f"{parameters['name']} is not ready yet", code="SharedNotReady", retry_after=_NOT_READY_SECONDS)
    if kind == RULES and not firewall.is_closed(document):
        message = f"{parameters['name']} does not separate VMs any more: delete it, and gpulease creates it again"
        raise InvalidSpec(message, code="SeparationChanged")


def _operations(group: Group, kind: str) -> Any:
    if kind == MEMBERS:
        return group.network.application_security_groups
    if kind == RULES:
        return group.network.network_security_groups
    return group.compute.proximity_placement_groups if kind == NEAR else group.compute.availability_sets


def _made(group: Group, kind: str, parameters: Params) -> Document:
    name, body = parameters["name"], parameters["body"]
    try:
        with translated():
            operations = _operations(group, kind)
            if kind not in _NETWORK:
                return cast(Document, operations.create_or_update(group.name, name, body))
            made: Document = operations.begin_create_or_update(group.name, name, body, polling=False).result()
    except NotFound as error:
        raise InvalidSpec(error.message, code=error.code) from None
    return made


def remove(group: Group, kind: str, name: str) -> None:
    """Requests deletion. Azure refuses it while something uses the resource."""
    operations = _operations(group, kind)
    if kind in _NETWORK:
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
    for entry in (*(properties.get("ipConfigurations") or ()), *(properties.get("securityRules") or ())):
        inner = entry.get("properties") or {}
        for member in (
            "applicationSecurityGroups",
            "sourceApplicationSecurityGroups",
            "destinationApplicationSecurityGroups",
        ):
            yield from (str(named["id"]).lower() for named in inner.get(member) or ())
