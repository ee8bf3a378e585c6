"""Disks, network interfaces, public addresses and network security groups."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from cloudsim.arm import create_requests, disks, placement, views
from cloudsim.arm.call import TYPES, Answer, Call, Handler
from cloudsim.arm.catalog import PROVIDER, REGIONS
from cloudsim.arm.errors import ArmError, locked, not_found
from cloudsim.arm.paging import paged
from cloudsim.world import Resource, ResourceKind, World

_IN_USE = {
    ResourceKind.VOLUME: "OperationNotAllowed",
    ResourceKind.NETWORK_INTERFACE: "NicInUse",
    ResourceKind.ADDRESS: "PublicIPAddressCannotBeDeleted",
    ResourceKind.SECURITY_GROUP: "InUseNetworkSecurityGroupCannotBeDeleted",
    ResourceKind.APPLICATION_SECURITY_GROUP: "OperationNotAllowed",
    ResourceKind.PLACEMENT_GROUP: "OperationNotAllowed",
    ResourceKind.AVAILABILITY_SET: "OperationNotAllowed",
}

_AT_ONCE = frozenset({ResourceKind.PLACEMENT_GROUP, ResourceKind.AVAILABILITY_SET})


def _named(call: Call, kind: ResourceKind) -> Resource:
    thing = call.resource(kind)
    if thing is None:
        raise not_found(TYPES[kind], call.name, call.group)
    return thing


def get(kind: ResourceKind) -> Handler:
    """One of a kind."""

    def handle(call: Call) -> Answer:
        thing = _named(call, kind)
        document = views.resource(call.world, thing)
        if call.query.get("$expand", "").lower() == "ipconfigurations/publicipaddress":
            document["properties"]["ipConfigurations"] = [views.ip_configuration(call.world, thing, whole=True)]
        return Answer(document)

    return handle


def listing(kind: ResourceKind) -> Handler:
    """A page of those in the group."""
    return lambda call: paged(call, call.resources(kind), lambda thing: views.resource(call.world, thing))


def update_tags(kind: ResourceKind) -> Handler:
    """Replaces the tags."""

    def handle(call: Call) -> Answer:
        thing = _named(call, kind)
        thing.tags = create_requests.check_tags(call.body.get("tags"))
        call.world.touch_resource(thing.id)
        return Answer(views.resource(call.world, thing))

    return handle


def delete(kind: ResourceKind) -> Handler:
    """Deletes what nothing holds; nothing to do for what does not exist."""

    def handle(call: Call) -> Answer:
        thing = call.resource(kind)
        if thing is None and kind is ResourceKind.PLACEMENT_GROUP:
            raise not_found(TYPES[kind], call.name, call.group)
        if thing is None:
            return Answer(status=204)
        if _is_held(call.world, thing):
            raise ArmError(_IN_USE[kind], f"{TYPES[kind]} {call.name} is in use and cannot be deleted.")
        if thing.spec.get("protected"):
            raise locked(thing.id)
        _check_reserved(call.world, thing)
        if kind is ResourceKind.VOLUME:
            call.world.delete_disk(thing)
        else:
            call.world.remove_resource(thing.id)
        return Answer(status=200 if kind in _AT_ONCE else 202)

    return handle


def _check_reserved(world: World, thing: Resource) -> None:
    """Refuses to delete an interface that Azure still reserves for its VM."""
    if thing.kind is not ResourceKind.NETWORK_INTERFACE:
        return
    ended = (vm.ended_at for vm in world.vms.values() if vm.spec.get("nic") == thing.id)
    if any(at is not None and world.now < at + world.settings.nic_reserved_seconds for at in ended):
        seconds = int(world.settings.nic_reserved_seconds)
        raise ArmError(
            "NicReservedForAnotherVm", f"Nic {thing.id} is reserved for another virtual machine for {seconds} seconds."
        )


def _is_held(world: World, thing: Resource) -> bool:
    by: Callable[[Resource], bool] = lambda nic: nic.spec.get("security_group") == thing.id  # noqa: E731  said once, below
    if placement.is_held(world, thing):
        return True
    return thing.vm_id is not None or any(map(by, world.resources.values()))


def put_disk(call: Call) -> Answer:
    """Makes an empty disk. A repeat of the same request changes nothing."""
    region, properties = str(call.body.get("location", "")).lower(), call.body.get("properties") or {}
    if region not in REGIONS:
        raise ArmError("LocationNotAvailableForResourceType", f"The provided location '{region}' is not available.")
    if (properties.get("creationData") or {}).get("createOption") != "Empty":
        raise ArmError("InvalidParameter", "Only creationData.createOption Empty is simulated.")
    spec = disks.empty(properties, (call.body.get("sku") or {}).get("name", "Standard_LRS"))
    made = call.resource(ResourceKind.VOLUME)
    if made is not None and made.spec["size"] != spec["size"]:
        raise ArmError("PropertyChangeNotAllowed", "Changing a disk by PUT is not simulated.")
    if made is None:
        number = next(iter(call.body.get("zones") or ()), None)
        made = Resource(
            kind=ResourceKind.VOLUME,
            provider=PROVIDER,
            account=call.subscription,
            region=region,
            zone=f"{region}-{number}" if number else region,
            id=call.id_of(TYPES[ResourceKind.VOLUME], call.name),
            tags=create_requests.check_tags(call.body.get("tags")),
            created_at=call.now,
            spec=spec,
        )
        call.world.add_resource(made)
    return Answer(views.resource(call.world, made), 202)


def put_security_group(call: Call) -> Answer:
    """Makes a group or changes it to the request."""
    region = str(call.body.get("location", "")).lower()
    if region not in REGIONS:
        raise ArmError("LocationNotAvailableForResourceType", f"The provided location '{region}' is not available.")
    rules = [_rule(call, entry) for entry in (call.body.get("properties") or {}).get("securityRules") or ()]
    _check_conflicts(rules)
    existing = call.resource(ResourceKind.SECURITY_GROUP)
    group = Resource(
        kind=ResourceKind.SECURITY_GROUP,
        provider=PROVIDER,
        account=call.subscription,
        region=region,
        zone="",
        id=call.id_of(TYPES[ResourceKind.SECURITY_GROUP], call.name),
        tags=create_requests.check_tags(call.body.get("tags")),
        created_at=existing.created_at if existing is not None else call.now,
        spec={"rules": rules},
    )
    call.world.add_resource(group)
    return Answer(views.resource(call.world, group), 201 if existing is None else 200)


def _check_conflicts(rules: list[dict[str, Any]]) -> None:
    """Two rules of one direction have no priority in common (Azure docs, "Network security groups overview")."""
    seen: dict[tuple[object, object], object] = {}
    for rule in rules:
        key = (rule["properties"]["direction"], rule["properties"]["priority"])
        if key in seen:
            message = f"Security rule {rule['name']} conflicts with rule {seen[key]}: same priority and direction."
            raise ArmError("SecurityRuleConflict", message)
        seen[key] = rule["name"]


def put_shared(kind: ResourceKind) -> Handler:
    """Makes a resource that VMs share, or changes it to the request. Its region cannot change."""

    def handle(call: Call) -> Answer:
        region = str(call.body.get("location", "")).lower()
        if region not in REGIONS:
            raise ArmError("LocationNotAvailableForResourceType", f"The provided location '{region}' is not available.")
        existing = call.resource(kind)
        if existing is not None and existing.region != region:
            raise ArmError(
                "InvalidResourceLocation", f"The resource '{call.name}' already exists in {existing.region}."
            )
        made = Resource(
            kind=kind,
            provider=PROVIDER,
            account=call.subscription,
            region=region,
            zone="",
            id=call.id_of(TYPES[kind], call.name),
            tags=create_requests.check_tags(call.body.get("tags")),
            created_at=existing.created_at if existing is not None else call.now,
            spec=placement.spec_of(call, kind),
        )
        call.world.add_resource(made)
        is_set = kind is ResourceKind.AVAILABILITY_SET  # Azure answers 200 for a new one, too
        return Answer(views.resource(call.world, made), 201 if existing is None and not is_set else 200)

    return handle


def _rule(call: Call, rule: dict[str, Any]) -> dict[str, Any]:
    properties = rule.get("properties")
    needed = {"priority", "access", "direction", "protocol", "destinationPortRange"}
    if not isinstance(properties, dict) or needed - set(properties):
        raise ArmError("InvalidRequestFormat", f"Security rule {rule.get('name')} lacks a required property.")
    for end in ("source", "destination"):
        for group in properties.get(f"{end}ApplicationSecurityGroups") or ():
            placement.require(call, group["id"])
    group = call.id_of(TYPES[ResourceKind.SECURITY_GROUP], call.name)
    return {
        "name": rule["name"],
        "id": f"{group}/securityRules/{rule['name']}",
        "properties": {"provisioningState": "Succeeded", **properties},
    }
