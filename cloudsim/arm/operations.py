"""Every operation of the Azure front: its path, who does the work, and how often it may be called.

Rates are per subscription. Resource Manager's are its published ones; Compute's own, for VMs, is of the published size.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from cloudsim.arm import (
    images,
    machines,
    networks,
    offerings,
    permissions,
    prices,
    reservations,
    resources,
    subscriptions,
)
from cloudsim.arm.call import TYPES, VMS, Handler
from cloudsim.world import ResourceKind
from cloudsim.world.limits import Rate

READS = ("reads", Rate(250, 25))
WRITES = ("writes", Rate(200, 10))
DELETES = ("deletes", Rate(200, 10))
PUT_VMS = ("put-vms", Rate(500, 500 / 60))

_SUBSCRIPTION = "/subscriptions/{subscription}"
_GROUP = f"{_SUBSCRIPTION}/resourceGroups/{{group}}/providers"
_FEATURE = f"{_SUBSCRIPTION}/providers/Microsoft.Features/providers/{{namespace}}/features/{{feature}}"
_COMPUTE = f"{_SUBSCRIPTION}/providers/Microsoft.Compute"
_LOCATION = f"{_COMPUTE}/locations/{{location}}"
_VM = f"{_GROUP}/{VMS}/{{name}}"
_GALLERY = f"{_GROUP}/Microsoft.Compute/galleries/{{gallery}}/images"
_IMAGES = "{publisher}/artifacttypes/vmimage/offers/{offer}/skus/{sku}/versions"


@dataclass(frozen=True, slots=True)
class Operation:
    """`name` as in Azure's specification; `buckets` are named: operations with the same name share one."""

    method: str
    path: str
    name: str
    handler: Handler
    buckets: tuple[tuple[str, Rate], ...]


def _of(kind: ResourceKind, name: str, listing: str, tagging: str) -> Iterator[Operation]:
    """The four operations of every kind of thing."""
    every = f"{_GROUP}/{TYPES[kind]}"
    single = f"{every}/{{name}}"
    yield Operation("GET", every, f"{name}.{listing}", resources.listing(kind), (READS,))
    yield Operation("GET", single, f"{name}.Get", resources.get(kind), (READS,))
    yield Operation("PATCH", single, f"{name}.{tagging}", resources.update_tags(kind), (WRITES,))
    yield Operation("DELETE", single, f"{name}.Delete", resources.delete(kind), (DELETES,))


_NETWORK = f"{_GROUP}/Microsoft.Network/virtualNetworks/{{name}}"
_SUBNET = f"{_NETWORK}/subnets/{{subnet}}"
_OF_RESOURCE = "providers/Microsoft.Authorization/permissions"
_PERMISSIONS = "Permissions.List"
_RESERVATIONS = f"{_GROUP}/{reservations.GROUPS}/{{name}}"
_GROUPS = f"{_GROUP}/{TYPES[ResourceKind.SECURITY_GROUP]}/{{name}}"
_ASG, _PPG = ResourceKind.APPLICATION_SECURITY_GROUP, ResourceKind.PLACEMENT_GROUP
_SET = ResourceKind.AVAILABILITY_SET


def _path_of(kind: ResourceKind) -> str:
    return f"{_GROUP}/{TYPES[kind]}/{{name}}"


OPERATIONS = (
    Operation("GET", _SUBSCRIPTION, "Subscriptions.Get", subscriptions.subscription, (READS,)),
    Operation("GET", f"{_SUBSCRIPTION}/providers/{{namespace}}", "Providers.Get", subscriptions.provider, (READS,)),
    Operation("GET", _FEATURE, "Features.Get", subscriptions.feature, (READS,)),
    Operation("PUT", _VM, "VirtualMachines.CreateOrUpdate", machines.create_or_update, (WRITES, PUT_VMS)),
    Operation("GET", _VM, "VirtualMachines.Get", machines.get, (READS,)),
    Operation("PATCH", _VM, "VirtualMachines.Update", machines.update, (WRITES,)),
    Operation("DELETE", _VM, "VirtualMachines.Delete", machines.delete, (DELETES,)),
    Operation("GET", f"{_VM}/instanceView", "VirtualMachines.InstanceView", machines.instance_view, (READS,)),
    Operation(
        "POST",
        f"{_VM}/attachDetachDataDisks",
        "VirtualMachines.AttachDetachDataDisks",
        machines.attach_disks,
        (WRITES,),
    ),
    Operation("POST", f"{_VM}/restart", "VirtualMachines.Restart", machines.restart, (WRITES,)),
    Operation(
        "POST",
        f"{_VM}/retrieveBootDiagnosticsData",
        "VirtualMachines.RetrieveBootDiagnosticsData",
        machines.boot_diagnostics,
        (WRITES,),
    ),
    Operation("GET", f"{_GROUP}/{VMS}", "VirtualMachines.List", machines.in_group, (READS,)),
    Operation("GET", f"{_COMPUTE}/virtualMachines", "VirtualMachines.ListAll", machines.in_subscription, (READS,)),
    Operation("GET", f"{_LOCATION}/virtualMachines", "VirtualMachines.ListByLocation", machines.in_location, (READS,)),
    Operation("GET", f"{_LOCATION}/operations/{{id}}", "Operations.Get", machines.operation, (READS,)),
    Operation("GET", f"{_LOCATION}/usages", "Usage.List", offerings.usages, (READS,)),
    Operation("GET", f"{_LOCATION}/publishers/{_IMAGES}", "VirtualMachineImages.List", images.versions, (READS,)),
    Operation(
        "GET", f"{_LOCATION}/publishers/{_IMAGES}/{{version}}", "VirtualMachineImages.Get", images.version, (READS,)
    ),
    Operation("GET", f"{_GALLERY}/{{name}}", "GalleryImages.Get", images.gallery_image, (READS,)),
    Operation("GET", f"{_GALLERY}/{{name}}/versions", "GalleryImageVersions.List", images.gallery_versions, (READS,)),
    Operation(
        "GET", f"{_GALLERY}/{{name}}/versions/{{version}}", "GalleryImageVersions.Get", images.gallery_version, (READS,)
    ),
    Operation("GET", f"{_GROUP}/Microsoft.Compute/images/{{name}}", "Images.Get", images.managed_image, (READS,)),
    Operation("GET", f"{_COMPUTE}/skus", "ResourceSkus.List", offerings.skus, (READS,)),
    Operation("GET", f"{_GROUP}/Microsoft.Authorization/permissions", _PERMISSIONS, permissions.permissions, (READS,)),
    Operation("GET", f"{_SUBNET}/{_OF_RESOURCE}", _PERMISSIONS, permissions.permissions, (READS,)),
    Operation("GET", f"{_RESERVATIONS}/{_OF_RESOURCE}", _PERMISSIONS, permissions.permissions, (READS,)),
    Operation("GET", f"{_GROUPS}/{_OF_RESOURCE}", _PERMISSIONS, permissions.permissions, (READS,)),
    Operation("GET", _NETWORK, "VirtualNetworks.Get", networks.get, (READS,)),
    Operation("GET", _RESERVATIONS, "CapacityReservationGroups.Get", reservations.get, (READS,)),
    Operation(
        "GET",
        f"{_RESERVATIONS}/capacityReservations",
        "CapacityReservations.ListByCapacityReservationGroup",
        reservations.members,
        (READS,),
    ),
    Operation("PUT", _GROUPS, "NetworkSecurityGroups.CreateOrUpdate", resources.put_security_group, (WRITES,)),
    *_of(ResourceKind.SECURITY_GROUP, "NetworkSecurityGroups", "List", "UpdateTags"),
    Operation("PUT", _path_of(_ASG), "ApplicationSecurityGroups.CreateOrUpdate", resources.put_shared(_ASG), (WRITES,)),
    Operation("PUT", _path_of(_PPG), "ProximityPlacementGroups.CreateOrUpdate", resources.put_shared(_PPG), (WRITES,)),
    Operation("PUT", _path_of(_SET), "AvailabilitySets.CreateOrUpdate", resources.put_shared(_SET), (WRITES,)),
    *_of(_ASG, "ApplicationSecurityGroups", "List", "UpdateTags"),
    *_of(_PPG, "ProximityPlacementGroups", "ListByResourceGroup", "Update"),
    *_of(_SET, "AvailabilitySets", "List", "Update"),
    *_of(ResourceKind.NETWORK_INTERFACE, "NetworkInterfaces", "List", "UpdateTags"),
    *_of(ResourceKind.ADDRESS, "PublicIPAddresses", "List", "UpdateTags"),
    Operation("PUT", _path_of(ResourceKind.VOLUME), "Disks.CreateOrUpdate", resources.put_disk, (WRITES,)),
    *_of(ResourceKind.VOLUME, "Disks", "ListByResourceGroup", "Update"),
)
EVERY_NAME = frozenset((*(operation.name for operation in OPERATIONS), prices.NAME))
ACTIONS = frozenset(
    (*(permissions.needed(operation.name) for operation in OPERATIONS), *permissions.WITHIN_THE_PUT, permissions.DEPLOY)
)
"""Actions that can be denied."""
