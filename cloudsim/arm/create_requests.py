"""From the body of a PUT to an order for the world, checked the way Azure checks it."""

from __future__ import annotations

import hashlib
import json
import re
import uuid
from typing import Any

from cloudsim.arm import disks, existing, placement, reservations
from cloudsim.arm.call import NETWORK, TYPES, Call, Document
from cloudsim.arm.catalog import PROVIDER, REGIONS
from cloudsim.arm.errors import ArmError
from cloudsim.arm.images import check_generation, check_plan, exact_version
from cloudsim.arm.subscriptions import check_security
from cloudsim.world import DiskOrder, Market, NicOrder, Order, Resource, ResourceKind, Vm

CUSTOM_DATA_CHARACTERS = 87_380
_SUBNET = re.compile(
    r"/subscriptions/[^/]+/resourceGroups/[^/]+/providers/Microsoft\.Network/virtualNetworks/[^/]+/subnets/[^/]+"
)
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,62}[A-Za-z0-9_]|[A-Za-z0-9]")
_MOST_TAGS = 50
DEALLOCATE = "Deallocate"
"""The eviction policy that keeps an evicted VM: the default."""


def read_order(call: Call) -> Order:
    """The order that the PUT places. Raises ArmError as Azure would refuse it."""
    body, properties = call.body, _member(call.body, "properties")
    region = _region(body)
    size = _member(properties, "hardwareProfile", "vmSize")
    zone, market = _zone(call, region, size), _market(properties)
    placed = placement.of_vm(call, properties, market)
    interface = _interface(properties)
    configuration = _ip_configuration(call, interface)
    tags = check_tags(body.get("tags"))
    _check_security(call, properties)
    _check_system(properties)
    storage = _member(properties, "storageProfile")
    disk = disks.os_disk(call, _member(storage, "osDisk"), tags)
    data = disks.data_disks(call, storage, tags)
    vm_id = str(uuid.UUID(int=call.world.rng.getrandbits(128), version=4))
    nic_id = call.id_of(TYPES[ResourceKind.NETWORK_INTERFACE], f"{interface['name']}-{call.world.hex(8)}")
    return Order(
        provider=PROVIDER,
        account=call.subscription,
        region=region,
        zones=(zone,),
        id=vm_id,
        name=call.name,
        instance_type=size,
        market=market,
        image=_image(call, body, region),
        tags=tags,
        token=call.name.lower(),
        token_scope=call.group.lower(),
        params_hash=hashlib.sha256(json.dumps(body, sort_keys=True).encode()).hexdigest(),
        public_ip="publicIPAddressConfiguration" in configuration,
        disks=(disk, *data),
        nics=(_nic(interface, configuration, nic_id),),
        spec=_spec(call, nic_id, (disk, *data)) | {"placed": placed},
        placement_group=placed[0] if placed else None,
        failure_stays=True,
        reclaim_stays=market is Market.SPOT and properties.get("evictionPolicy", DEALLOCATE) == DEALLOCATE,
        reservation=reservations.target(call, properties),
    )


def _spec(call: Call, nic_id: str, made: tuple[DiskOrder, ...]) -> dict[str, Any]:
    """`made`: the OS disk, then the data disks."""
    return {
        "group": call.group,
        "properties": _stored_properties(call.body["properties"]),
        "custom_data": call.body["properties"]["osProfile"].get("customData", ""),
        "identity": _identity(call),
        "nic": nic_id,
        "disk": made[0].id,
        "data_disks": [disk.id for disk in made[1:]],
    }


def _member(document: Document, *path: str) -> Any:
    member: Any = document
    for name in path:
        if not isinstance(member, dict) or name not in member:
            raise ArmError("InvalidParameter", f"Required parameter '{'.'.join(path)}' is missing (null).")
        member = member[name]
    return member


def _region(body: Document) -> str:
    region = str(_member(body, "location")).lower().replace(" ", "")
    if region not in REGIONS:
        raise ArmError("LocationNotAvailableForResourceType", f"The provided location '{region}' is not available.")
    return region


def _zone(call: Call, region: str, size: str) -> str:
    if _NAME.fullmatch(call.name) is None:
        raise ArmError("InvalidResourceName", f"Resource name {call.name} is invalid.")
    if size not in call.world.catalogs[PROVIDER].machines:
        raise ArmError("InvalidParameter", f"The value {size} provided for the VM size is not valid.")
    zones = call.body.get("zones") or []
    if len(zones) > 1:
        raise ArmError("InvalidParameter", "A virtual machine can be placed in one zone only.")
    zone = f"{region}-{zones[0]}" if zones else region
    sold = call.world.offered[PROVIDER]
    somewhere = zone == region and any((other, size) in sold for other in REGIONS[region])
    if (zone, size) not in sold and not somewhere:
        raise ArmError(
            "SkuNotAvailable",
            f"The requested VM size for resource '{call.name}' is currently not available in location '{region}' "
            f"zones '{','.join(zones)}' for subscription '{call.subscription}'.",
        )
    return zone


def _market(properties: Document) -> Market:
    if properties.get("priority", "Regular") == "Regular":
        if "evictionPolicy" in properties or "billingProfile" in properties:
            raise ArmError("InvalidParameter", "Eviction policy and max price can only be set on Azure Spot VMs.")
        return Market.ON_DEMAND
    if properties.get("evictionPolicy", DEALLOCATE) not in {DEALLOCATE, "Delete"}:
        raise ArmError("InvalidParameter", "The value of parameter evictionPolicy is invalid.")
    return Market.SPOT


def _image(call: Call, body: Document, region: str) -> str:
    reference = _member(body["properties"], "storageProfile", "imageReference")
    for field in ("id", "communityGalleryImageId", "sharedGalleryImageId"):
        if field in reference:
            check_generation(str(reference[field]), _member(body, "properties", "hardwareProfile", "vmSize"))
            return str(reference[field])
    publisher, offer, sku, version = (_member(reference, name) for name in ("publisher", "offer", "sku", "version"))
    chosen = exact_version(call.world, region, publisher, offer, sku, version)
    check_plan(publisher, offer, sku, body.get("plan"))
    return f"{publisher}:{offer}:{sku}:{chosen}"


def _check_security(call: Call, properties: Document) -> None:
    profile = properties.get("securityProfile") or {}
    kind = profile.get("securityType")
    if kind not in {None, "Standard", "TrustedLaunch"}:
        raise ArmError(
            "InvalidParameter", f"The value '{kind}' of parameter 'securityProfile.securityType' is invalid."
        )
    check_security(call, kind)
    if "uefiSettings" in profile and kind != "TrustedLaunch":
        raise ArmError(
            "InvalidParameter", "Use of UEFI settings is not supported without the security type TrustedLaunch."
        )


def _interface(properties: Document) -> Document:
    profile = _member(properties, "networkProfile")
    configurations = profile.get("networkInterfaceConfigurations") or []
    if "networkApiVersion" not in profile or len(configurations) != 1:
        raise ArmError("InvalidParameter", "One networkInterfaceConfiguration with its networkApiVersion is simulated.")
    interface: Document = configurations[0]
    _member(interface, "name")
    return interface


def _ip_configuration(call: Call, interface: Document) -> Document:
    configurations = _member(interface, "properties", "ipConfigurations")
    properties: Document = _member(configurations[0], "properties")
    if _SUBNET.fullmatch(_member(properties, "subnet", "id")) is None:
        raise ArmError("LinkedInvalidPropertyId", f"Property id '{properties['subnet']['id']}' is invalid.")
    group = interface["properties"].get("networkSecurityGroup")
    if group is not None and group["id"] not in call.world.resources:
        raise ArmError("InvalidResourceReference", f"Resource {group['id']} referenced was not found.")
    for members in properties.get("applicationSecurityGroups") or ():
        placement.require(call, members["id"])
    return properties


def _check_system(properties: Document) -> None:
    system = _member(properties, "osProfile")
    linux = system.get("linuxConfiguration") or {}
    keys = (linux.get("ssh") or {}).get("publicKeys") or []
    if linux.get("disablePasswordAuthentication") and not keys:
        raise ArmError("InvalidParameter", "Parameter 'linuxConfiguration.ssh.publicKeys' is missing.")
    if any(not key["keyData"].startswith(("ssh-rsa ", "ssh-ed25519 ")) for key in keys):
        raise ArmError(
            "InvalidParameter", "The value of parameter linuxConfiguration.ssh.publicKeys.keyData is invalid."
        )
    if len(system.get("customData", "")) > CUSTOM_DATA_CHARACTERS:
        raise ArmError("InvalidParameter", "Custom data in OSProfile is too long.")


def _identity(call: Call) -> Document | None:
    """As it is shown: with the ids that the directory gives each identity."""
    identity = call.body.get("identity")
    if identity is None:
        return None
    assigned = identity.get("userAssignedIdentities") or {}
    if identity.get("type") != "UserAssigned" or not assigned:
        raise ArmError("InvalidParameter", "Only user-assigned identities are simulated.")
    for identity_id in assigned:
        if not existing.exists(identity_id):
            raise ArmError("FailedIdentityOperation", f"Identity operation failed: '{identity_id}' was not found.")
    identities = {
        identity_id: {"clientId": _uuid(f"client/{identity_id}"), "principalId": _uuid(f"principal/{identity_id}")}
        for identity_id in assigned
    }
    return {"type": "UserAssigned", "userAssignedIdentities": identities}


def _uuid(of: str) -> str:
    return str(uuid.uuid5(uuid.NAMESPACE_URL, of))


def _nic(interface: Document, configuration: Document, nic_id: str) -> NicOrder:
    return NicOrder(
        id=nic_id,
        tags=check_tags(interface.get("tags")),
        delete_with_vm=interface["properties"].get("deleteOption", "Detach") == "Delete",
        spec={
            "subnet": configuration["subnet"]["id"],
            "accelerated": bool(interface["properties"].get("enableAcceleratedNetworking")),
            "members": [group["id"] for group in configuration.get("applicationSecurityGroups") or ()],
            "security_group": (interface["properties"].get("networkSecurityGroup") or {}).get("id"),
        },
    )


def public_address(call: Call, vm: Vm) -> Resource | None:
    """The public address in the body of the PUT, to be made with its VM."""
    interface = _interface(call.body["properties"])
    address = interface["properties"]["ipConfigurations"][0]["properties"].get("publicIPAddressConfiguration")
    if address is None:
        return None
    return Resource(
        kind=ResourceKind.ADDRESS,
        provider=PROVIDER,
        account=vm.account,
        region=vm.region,
        zone=vm.zone,
        id=call.id_of(f"{NETWORK}/publicIPAddresses", f"{address['name']}-{call.world.hex(8)}"),
        tags=check_tags(address.get("tags")),
        created_at=vm.launched_at,
        vm_id=vm.id,
        delete_with_vm=(address.get("properties") or {}).get("deleteOption", "Detach") == "Delete",
        spec={"ip": vm.public_ip, "nic": vm.spec["nic"]},
    )


def check_tags(tags: Document | None) -> dict[str, str]:
    """Raises ArmError for tags that Azure does not take."""
    copied = {} if tags is None else dict(tags)
    if len(copied) > _MOST_TAGS:
        raise ArmError("InvalidTags", f"At most {_MOST_TAGS} tags can be set.")
    for key, value in copied.items():
        if not key or len(key) > 512 or set(key) & set("<>%&\\?/") or not isinstance(value, str) or len(value) > 256:
            raise ArmError("InvalidTagNameCharacters", f"The tag '{key}' is invalid.")
    if len({key.lower() for key in copied}) < len(copied):
        raise ArmError("InvalidTags", "The tag names are not unique.")
    return copied


def _stored_properties(properties: Document) -> Document:
    """What Azure shows again: never the custom data."""
    system = {name: value for name, value in properties["osProfile"].items() if name != "customData"}
    members = (
        "hardwareProfile",
        "storageProfile",
        "securityProfile",
        "diagnosticsProfile",
        "priority",
        "evictionPolicy",
        "billingProfile",
        "capacityReservation",
        "proximityPlacementGroup",
        "availabilitySet",
    )
    return {name: properties[name] for name in members if name in properties} | {"osProfile": system}
