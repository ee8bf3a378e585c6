"""The actions that the adapter needs at Azure: the one list of them. The role in `docs/providers/azure.md` has these."""

import re
from collections.abc import Iterable, Mapping
from typing import Any

READ_SUBSCRIPTION = "Microsoft.Resources/subscriptions/read"
READ_SECURITY_GROUP = "Microsoft.Network/networkSecurityGroups/read"
JOIN_SECURITY_GROUP = "Microsoft.Network/networkSecurityGroups/join/action"
"""Both are needed on each network security group that the account names, too, which may be in another group."""
RIGHTS = (
    READ_SUBSCRIPTION,
    "Microsoft.Compute/skus/read",
    "Microsoft.Compute/locations/usages/read",
    "Microsoft.Compute/locations/publishers/artifacttypes/offers/skus/versions/read",
    "Microsoft.Compute/images/read",
    "Microsoft.Compute/galleries/images/read",
    "Microsoft.Compute/galleries/images/versions/read",
    "Microsoft.Compute/virtualMachines/read",
    "Microsoft.Compute/virtualMachines/instanceView/read",
    "Microsoft.Compute/virtualMachines/write",
    "Microsoft.Compute/virtualMachines/delete",
    "Microsoft.Compute/virtualMachines/attachDetachDataDisks/action",
    "Microsoft.Compute/virtualMachines/restart/action",
    "Microsoft.Compute/virtualMachines/retrieveBootDiagnosticsData/action",
    "Microsoft.Compute/disks/read",
    "Microsoft.Compute/disks/write",
    "Microsoft.Compute/disks/delete",
    "Microsoft.Network/networkInterfaces/read",
    "Microsoft.Network/networkInterfaces/write",
    "Microsoft.Network/networkInterfaces/delete",
    "Microsoft.Network/networkInterfaces/join/action",
    "Microsoft.Network/publicIPAddresses/read",
    "Microsoft.Network/publicIPAddresses/write",
    "Microsoft.Network/publicIPAddresses/delete",
    "Microsoft.Network/publicIPAddresses/join/action",
    READ_SECURITY_GROUP,
    "Microsoft.Network/networkSecurityGroups/write",
    "Microsoft.Network/networkSecurityGroups/delete",
    JOIN_SECURITY_GROUP,
    "Microsoft.Network/applicationSecurityGroups/read",
    "Microsoft.Network/applicationSecurityGroups/write",
    "Microsoft.Network/applicationSecurityGroups/delete",
    "Microsoft.Network/applicationSecurityGroups/joinIpConfiguration/action",
    "Microsoft.Network/applicationSecurityGroups/joinNetworkSecurityRule/action",
    "Microsoft.Compute/proximityPlacementGroups/read",
    "Microsoft.Compute/proximityPlacementGroups/write",
    "Microsoft.Compute/proximityPlacementGroups/delete",
    "Microsoft.Compute/availabilitySets/read",
    "Microsoft.Compute/availabilitySets/write",
    "Microsoft.Compute/availabilitySets/delete",
    "Microsoft.Network/virtualNetworks/subnets/join/action",
)
"""What leases need."""

JOIN_SUBNET = "Microsoft.Network/virtualNetworks/subnets/join/action"
"""Needed on each subnet, which may be in another group."""

RESERVATION_RIGHTS = (
    "Microsoft.Compute/capacityReservationGroups/read",
    "Microsoft.Compute/capacityReservationGroups/capacityReservations/read",
    "Microsoft.Compute/capacityReservationGroups/deploy/action",
)
"""Needed on each capacity reservation group of the account, which may be in another group."""

LIST_PERMISSIONS = "Microsoft.Authorization/permissions/read"
READ_NETWORK = "Microsoft.Network/virtualNetworks/read"
READ_PROVIDER = "Microsoft.Resources/subscriptions/providers/read"
READ_FEATURE = "Microsoft.Features/providers/features/read"
CHECK_RIGHTS = (LIST_PERMISSIONS, READ_NETWORK, READ_PROVIDER, READ_FEATURE)
"""Only the check needs them. Without them, the check cannot show rights, subnets and registrations."""


def is_granted(right: str, permissions: Iterable[Mapping[str, Any]]) -> bool:
    """Whether any of the roles in Azure's list of permissions has the right.

    A role has a right that its `actions` match and its `notActions` do not. A role does not take away what another one
    gives. Source: Azure docs, "Understand Azure role definitions".
    """
    return any(
        _matches(right, role.get("actions") or ()) and not _matches(right, role.get("notActions") or ())
        for role in permissions
    )


def _matches(right: str, patterns: Iterable[str]) -> bool:
    """`*` stands for any characters, slashes included. Case does not matter."""
    return any(
        re.fullmatch(".*".join(map(re.escape, pattern.split("*"))), right, re.IGNORECASE) for pattern in patterns
    )
