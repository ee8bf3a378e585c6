"""Launches a VM: the PUT that creates the VM and what belongs to it, and the security group before it."""

import hashlib
import json
from dataclasses import replace
from typing import Any

from azure.core import MatchConditions

from app.domain.leases import VmState
from app.domain.offerings import Market
from app.domain.tags import ATTEMPT, INSTALLATION, LEASE
from app.domain.tokens import launch_name
from app.settings.reservations import ReservationSettings
from workers.providers.azure import (
    disks,
    firewall,
    groups,
    images,
    instances,
    names,
    places,
    resource_tags,
    userdata,
    vms,
)
from workers.providers.azure.calls import Document, part
from workers.providers.azure.clients import Group
from workers.providers.azure.errors import creating
from workers.providers.azure.reservations import launch_members
from workers.providers.azure.settings import AzureAccount
from workers.providers.common import ssh_keys
from workers.providers.errors import OutcomeUnknown, ProviderError, TokenConflict
from workers.providers.send_window import create_call
from workers.providers.types import LaunchSpec, Params, Vm

USER = ssh_keys.USER
_SAME = (INSTALLATION, LEASE, ATTEMPT, resource_tags.REQUEST)
"""Tags that identify the launch and the parameters that created a VM."""
_NETWORK_API = "2022-11-01"
"""The version of the Network API that Compute makes the interface with (`networkProfile.networkApiVersion`)."""
_STANDARD = "Standard"


def plan(
    spec: LaunchSpec,
    account: AzureAccount,
    *,
    group: str,
    subnet: str,
    reservation: ReservationSettings | None = None,
) -> Params:
    """JSON-able, the same for the same arguments: `name` and `vm`, `firewall` where networks are named, `group` for what is shared.

    `group`: id of the resource group. `subnet`: id of the subnet. Without identities of the account, the VM has no
    rights at Azure.
    """
    name = launch_name(spec.token)
    labels = resource_tags.of(spec, account)
    public_ip = spec.public_ip and account.public_addresses
    shared = groups.kinds(spec, account)
    members = groups.resource_id(spec, group, groups.MEMBERS) if groups.MEMBERS in shared else None
    security_group = _security_group(spec, account, name, group, shared)
    body: dict[str, Any] = {
        "location": spec.region,
        "properties": {
            **_profiles(spec, account, name),
            **_market(spec, reservation),
            **groups.vm_properties(spec, group, shared),
        },
        **({"plan": dict(spec.image.purchase_plan)} if spec.image.purchase_plan is not None else {}),
        **({} if groups.SET in shared else places.zones(spec.region, spec.zone)),
        **_identity(account),
    }
    labels[resource_tags.REQUEST] = _digest([body, subnet, public_ip, spec.allowed_cidrs, security_group, members])
    interface = _interface(name, labels, subnet, security_group, public_ip=public_ip, members=members)
    body["properties"]["networkProfile"]["networkInterfaceConfigurations"] = [interface]
    return {
        "name": name,
        "vm": body | {"tags": labels},
        **firewall.plan(spec, name, labels, members),
        **groups.plan(spec, account, group, shared),
    }


def _security_group(spec: LaunchSpec, account: AzureAccount, name: str, group: str, shared: tuple[str, ...]) -> str:
    """The id of the one that the interface has."""
    if spec.allowed_cidrs:
        return f"{group}/providers/Microsoft.Network/networkSecurityGroups/{names.security_group(name)}"
    if groups.RULES in shared:
        return groups.resource_id(spec, group, groups.RULES)
    return account.network_security_group_ids[spec.region]


def _profiles(spec: LaunchSpec, account: AzureAccount, name: str) -> dict[str, Any]:
    return {
        "hardwareProfile": {"vmSize": spec.instance_type},
        "storageProfile": {"imageReference": _image(spec.image.id), **disks.plan(spec, account, name)},
        "osProfile": _system(spec, name),
        "networkProfile": {"networkApiVersion": _NETWORK_API},
        "diagnosticsProfile": {"bootDiagnostics": {"enabled": True}},
        "securityProfile": _security(account.security_type),
    }


def _digest(parts: list[Any]) -> str:
    return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()[:32]


def _image(image: str) -> dict[str, str]:
    for beginning, field in images.SHARED.items():
        if image.lower().startswith(beginning):
            return {field: image}
    if image.startswith("/"):
        return {"id": image}
    publisher, offer, sku, version = image.split(":")
    return {"publisher": publisher, "offer": offer, "sku": sku, "version": version}


def _identity(account: AzureAccount) -> dict[str, Any]:
    if not account.identity_ids:
        return {}
    identities: dict[str, Any] = {identity: {} for identity in account.identity_ids}
    return {"identity": {"type": "UserAssigned", "userAssignedIdentities": identities}}


def _system(spec: LaunchSpec, name: str) -> dict[str, Any]:
    path = f"/home/{USER}/.ssh/authorized_keys"
    keys = [{"path": path, "keyData": key} for key in userdata.login_keys(spec)]
    return {
        "computerName": name,
        "adminUsername": USER,
        "customData": userdata.packed(spec),
        "linuxConfiguration": {
            "disablePasswordAuthentication": True,
            "provisionVMAgent": True,
            "ssh": {"publicKeys": keys},
        },
    }


def _security(security_type: str) -> dict[str, Any]:
    """Azure's default for new VMs has secure boot, which refuses GPU drivers that are not signed.

    `TrustedLaunch` keeps the virtual TPM and leaves secure boot off. Source: Azure docs, "Trusted Launch for Azure
    virtual machines".
    """
    if security_type == _STANDARD:
        return {"securityType": _STANDARD}
    return {"securityType": security_type, "uefiSettings": {"secureBootEnabled": False, "vTpmEnabled": True}}


def _market(spec: LaunchSpec, reservation: ReservationSettings | None) -> dict[str, Any]:
    """A highest price of −1 is the on-demand price: such a VM is never evicted for its price.

    Azure deallocates an evicted VM. A deleted one would leave no trace of the eviction.
    """
    if spec.market is Market.RESERVED:
        return launch_members(reservation)
    if spec.market is Market.ON_DEMAND:
        return {}
    return {"priority": "Spot", "evictionPolicy": vms.DEALLOCATE, "billingProfile": {"maxPrice": -1}}


def _interface(
    name: str, labels: dict[str, str], subnet: str, security_group: str, *, public_ip: bool, members: str | None
) -> dict[str, Any]:
    configuration: dict[str, Any] = {"primary": True, "subnet": {"id": subnet}}
    if members is not None:
        configuration["applicationSecurityGroups"] = [{"id": members}]
    if public_ip:
        configuration["publicIPAddressConfiguration"] = {
            "name": names.address(name),
            "sku": {"name": "Standard", "tier": "Regional"},
            "tags": labels,
            "properties": {"deleteOption": "Delete", "publicIPAllocationMethod": "Static"},
        }
    properties = {
        "primary": True,
        "deleteOption": "Delete",
        "enableAcceleratedNetworking": True,
        "networkSecurityGroup": {"id": security_group},
        "ipConfigurations": [{"name": "primary", "properties": configuration}],
    }
    return {"name": names.interface(name), "tags": labels, "properties": properties}


def create(group: Group, params: Params) -> Vm:
    """Creates the VM of these parameters, or reads the VM if it exists.

    Raises TokenConflict when the existing VM has another owner or came from other parameters. Once Azure has accepted
    the PUT, or reports that the name is in use, a failed read never means that nothing was created.
    """
    name, body = params["name"], params["vm"]
    try:
        with create_call(), creating(group.name):
            poller = group.compute.virtual_machines.begin_create_or_update(
                group.name, name, body, etag="*", match_condition=MatchConditions.IfMissing, polling=False
            )
            created: Document = poller.result()
    except TokenConflict as conflict:
        return _read_back(group, params, conflict)
    vm = vms.from_document(created, None)
    return _with_failure(group, name, vm) if part(created, "properties").get("provisioningState") == "Failed" else vm


def _with_failure(group: Group, name: str, vm: Vm) -> Vm:
    """A VM that has failed by now, with the reason, which only its instance view contains.

    If the instance view cannot be read, the VM counts as starting, and the watch reads it later.
    """
    try:
        failed = instances.document_of(group, name)
        return vm if failed is None else instances.of_document(group, failed)
    except ProviderError:
        return replace(vm, state=VmState.PENDING)


def _read_back(group: Group, params: Params, conflict: TokenConflict) -> Vm:
    name = params["name"]
    try:
        existing = instances.document_of(group, name)
    except ProviderError as error:
        raise OutcomeUnknown(f"{name} exists and cannot be read: {error.message}", code=error.code) from None
    if existing is None:
        raise OutcomeUnknown(f"{name} exists and is not shown: {conflict.message}", code=conflict.code)
    theirs, ours = resource_tags.read(existing.get("tags")), params["vm"]["tags"]
    if any(theirs.get(key) != ours[key] for key in _SAME):
        raise conflict
    try:
        return instances.of_document(group, existing)
    except ProviderError:
        return vms.from_document(existing, part(existing, "properties").get("instanceView"))
