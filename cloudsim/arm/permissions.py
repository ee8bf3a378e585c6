"""The action that each call needs, and the list of actions that a caller has: all but those that a test denies."""

from __future__ import annotations

from cloudsim.arm.call import Answer, Call
from cloudsim.arm.catalog import PROVIDER
from cloudsim.arm.errors import ArmError

_VERBS = {
    "Get": "read",
    "List": "read",
    "ListAll": "read",
    "ListByCapacityReservationGroup": "read",
    "ListByLocation": "read",
    "ListByResourceGroup": "read",
    "InstanceView": "instanceView/read",
    "CreateOrUpdate": "write",
    "Update": "write",
    "UpdateTags": "write",
    "Delete": "delete",
    "Restart": "restart/action",
    "AttachDetachDataDisks": "attachDetachDataDisks/action",
    "RetrieveBootDiagnosticsData": "retrieveBootDiagnosticsData/action",
}
_KINDS = {
    "Subscriptions": "Microsoft.Resources/subscriptions",
    "Providers": "Microsoft.Resources/subscriptions/providers",
    "Features": "Microsoft.Features/providers/features",
    "Permissions": "Microsoft.Authorization/permissions",
    "VirtualMachines": "Microsoft.Compute/virtualMachines",
    "CapacityReservationGroups": "Microsoft.Compute/capacityReservationGroups",
    "CapacityReservations": "Microsoft.Compute/capacityReservationGroups/capacityReservations",
    "Disks": "Microsoft.Compute/disks",
    "Operations": "Microsoft.Compute/locations/operations",
    "ResourceSkus": "Microsoft.Compute/skus",
    "Usage": "Microsoft.Compute/locations/usages",
    "VirtualMachineImages": "Microsoft.Compute/locations/publishers/artifacttypes/offers/skus/versions",
    "GalleryImages": "Microsoft.Compute/galleries/images",
    "GalleryImageVersions": "Microsoft.Compute/galleries/images/versions",
    "Images": "Microsoft.Compute/images",
    "NetworkInterfaces": "Microsoft.Network/networkInterfaces",
    "PublicIPAddresses": "Microsoft.Network/publicIPAddresses",
    "NetworkSecurityGroups": "Microsoft.Network/networkSecurityGroups",
    "ApplicationSecurityGroups": "Microsoft.Network/applicationSecurityGroups",
    "ProximityPlacementGroups": "Microsoft.Compute/proximityPlacementGroups",
    "AvailabilitySets": "Microsoft.Compute/availabilitySets",
    "VirtualNetworks": "Microsoft.Network/virtualNetworks",
}
WITHIN_THE_PUT = (
    "Microsoft.Network/networkInterfaces/join/action",
    "Microsoft.Network/publicIPAddresses/join/action",
    "Microsoft.Network/networkSecurityGroups/join/action",
    "Microsoft.Network/applicationSecurityGroups/joinIpConfiguration/action",
    "Microsoft.Network/applicationSecurityGroups/joinNetworkSecurityRule/action",
    "Microsoft.Network/virtualNetworks/subnets/join/action",
)
"""What Azure asks of the caller when it makes a VM with what belongs to it."""

DEPLOY = "Microsoft.Compute/capacityReservationGroups/deploy/action"
"""What Azure asks besides for a VM in a capacity reservation group."""


def needed(operation: str) -> str:
    """`VirtualMachines.CreateOrUpdate` needs `Microsoft.Compute/virtualMachines/write`."""
    kind, _, verb = operation.partition(".")
    return f"{_KINDS[kind]}/{_VERBS[verb]}"


def check(call: Call, operation: str) -> None:
    """Raises ArmError AuthorizationFailed or LinkedAuthorizationFailed."""
    restrictions, action = call.world.restrictions, needed(operation)
    if restrictions.first_denied(PROVIDER, [action]):
        raise ArmError(
            "AuthorizationFailed",
            f"The client 'gpulease' does not have authorization to perform action '{action}' over scope "
            f"'/subscriptions/{call.subscription}' or the scope is invalid.",
        )
    linked = None
    if operation == "VirtualMachines.CreateOrUpdate":
        is_reserved = "capacityReservation" in call.body.get("properties", {})
        linked = restrictions.first_denied(PROVIDER, (*WITHIN_THE_PUT, *((DEPLOY,) if is_reserved else ())))
    if linked is not None:
        raise ArmError(
            "LinkedAuthorizationFailed",
            f"The client 'gpulease' has permission to perform action '{action}', however it does not have permission to "
            f"perform action '{linked}' on the linked scope.",
        )


def permissions(call: Call) -> Answer:
    """`GET …/providers/Microsoft.Authorization/permissions`: one assignment of a role."""
    denied = sorted(action for provider, action in call.world.restrictions.denied if provider == PROVIDER)
    role = {"actions": ["Microsoft.*"], "notActions": denied, "dataActions": [], "notDataActions": []}
    return Answer({"value": [role]})
