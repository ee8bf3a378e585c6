"""Every operation of the front: its path, who does the work, and how often it may be called.

Rates are per project and region. Google counts requests by the minute (Compute Engine guide, "Rate quotas": 1,500 a minute
for each group); here a bucket of that size fills steadily.
"""

from __future__ import annotations

from dataclasses import dataclass

from cloudsim.gce import (
    bulk,
    disks,
    firewalls,
    images,
    instances,
    networks,
    operations,
    permissions,
    places,
    prices,
    reservations,
    resource_policies,
)
from cloudsim.gce.call import Handler
from cloudsim.world.limits import Rate

_A_MINUTE = Rate(1_500, 25)
READS = ("reads", _A_MINUTE)
WRITES = ("writes", _A_MINUTE)
GLOBAL_READS = ("global-reads", _A_MINUTE)
GLOBAL_WRITES = ("global-writes", _A_MINUTE)

_ZONE = "/zones/{zone}"
_POLICIES = "/regions/{region}/resourcePolicies"
_INSTANCE = _ZONE + "/instances/{instance}"


@dataclass(frozen=True, slots=True)
class Operation:
    """`path` is what follows `/compute/v1/projects/{project}`."""

    name: str
    method: str
    path: str
    handler: Handler
    bucket: tuple[str, Rate]


OPERATIONS = (
    Operation("projects.get", "GET", "", places.project, GLOBAL_READS),
    Operation("regions.get", "GET", "/regions/{region}", places.region, READS),
    Operation("zones.list", "GET", "/zones", places.zones, GLOBAL_READS),
    Operation("machineTypes.aggregatedList", "GET", "/aggregated/machineTypes", places.machine_types, GLOBAL_READS),
    Operation(
        "acceleratorTypes.aggregatedList", "GET", "/aggregated/acceleratorTypes", places.accelerator_types, GLOBAL_READS
    ),
    Operation("images.getFromFamily", "GET", "/global/images/family/{family}", images.get_from_family, GLOBAL_READS),
    Operation("images.get", "GET", "/global/images/{image}", images.get, GLOBAL_READS),
    Operation("instances.aggregatedList", "GET", "/aggregated/instances", instances.aggregated_list, GLOBAL_READS),
    Operation("instances.list", "GET", _ZONE + "/instances", instances.list_, READS),
    Operation("instances.insert", "POST", _ZONE + "/instances", instances.insert, WRITES),
    Operation("instances.bulkInsert", "POST", _ZONE + "/instances/bulkInsert", bulk.insert, WRITES),
    Operation("instances.get", "GET", _INSTANCE, instances.get, READS),
    Operation("instances.delete", "DELETE", _INSTANCE, instances.delete, WRITES),
    Operation("instances.attachDisk", "POST", _INSTANCE + "/attachDisk", disks.attach, WRITES),
    Operation("instances.reset", "POST", _INSTANCE + "/reset", instances.reset, WRITES),
    Operation("instances.setLabels", "POST", _INSTANCE + "/setLabels", instances.set_labels, WRITES),
    Operation("instances.getSerialPortOutput", "GET", _INSTANCE + "/serialPort", instances.serial_port_output, READS),
    Operation(
        "instances.getGuestAttributes", "GET", _INSTANCE + "/getGuestAttributes", instances.guest_attributes, READS
    ),
    Operation("reservations.get", "GET", _ZONE + "/reservations/{reservation}", reservations.get, READS),
    Operation("resourcePolicies.insert", "POST", _POLICIES, resource_policies.insert, WRITES),
    Operation("resourcePolicies.list", "GET", _POLICIES, resource_policies.list_, READS),
    Operation("resourcePolicies.get", "GET", _POLICIES + "/{resourcePolicy}", resource_policies.get, READS),
    Operation("resourcePolicies.delete", "DELETE", _POLICIES + "/{resourcePolicy}", resource_policies.delete, WRITES),
    Operation("zoneOperations.list", "GET", _ZONE + "/operations", operations.list_, READS),
    Operation("zoneOperations.get", "GET", _ZONE + "/operations/{operation}", operations.get, READS),
    Operation(
        "globalOperations.aggregatedList", "GET", "/aggregated/operations", operations.aggregated_list, GLOBAL_READS
    ),
    Operation("disks.aggregatedList", "GET", "/aggregated/disks", disks.aggregated_list, GLOBAL_READS),
    Operation("disks.list", "GET", _ZONE + "/disks", disks.list_, READS),
    Operation("disks.get", "GET", _ZONE + "/disks/{disk}", disks.get, READS),
    Operation("disks.insert", "POST", _ZONE + "/disks", disks.insert, WRITES),
    Operation("disks.delete", "DELETE", _ZONE + "/disks/{disk}", disks.delete, WRITES),
    Operation("disks.setLabels", "POST", _ZONE + "/disks/{resource}/setLabels", disks.set_labels, WRITES),
    Operation("networks.get", "GET", "/global/networks/{network}", networks.network, GLOBAL_READS),
    Operation("subnetworks.get", "GET", "/regions/{region}/subnetworks/{subnetwork}", networks.subnetwork, READS),
    Operation(
        "subnetworks.testIamPermissions",
        "POST",
        "/regions/{region}/subnetworks/{resource}/testIamPermissions",
        permissions.test_iam_permissions,
        READS,
    ),
    Operation("firewalls.list", "GET", "/global/firewalls", firewalls.list_, GLOBAL_READS),
    Operation("firewalls.insert", "POST", "/global/firewalls", firewalls.insert, GLOBAL_WRITES),
    Operation("firewalls.get", "GET", "/global/firewalls/{firewall}", firewalls.get, GLOBAL_READS),
    Operation("firewalls.delete", "DELETE", "/global/firewalls/{firewall}", firewalls.delete, GLOBAL_WRITES),
)
OTHERS = (
    Operation("services.skus.list", "GET", "/v1/services/{service}/skus", prices.skus, GLOBAL_READS),
    Operation(
        "projects.testIamPermissions",
        "POST",
        "/v1/projects/{project}:testIamPermissions",
        permissions.test_iam_permissions,
        GLOBAL_READS,
    ),
)
"""Of other APIs: `path` is the whole path."""
EVERY_NAME = frozenset(operation.name for operation in (*OPERATIONS, *OTHERS))
ACTIONS = frozenset(permission for name in EVERY_NAME for permission in permissions.needed(name))
"""Permissions that can be denied."""
