"""The permissions that the adapter needs at Google: the one list of them. The role in `docs/providers/gcp.md` has these."""

RIGHTS = (
    "compute.acceleratorTypes.list",
    "compute.disks.create",
    "compute.disks.delete",
    "compute.disks.get",
    "compute.disks.list",
    "compute.disks.setLabels",
    "compute.disks.use",
    "compute.firewalls.create",
    "compute.firewalls.delete",
    "compute.firewalls.get",
    "compute.firewalls.list",
    "compute.globalOperations.list",
    "compute.images.get",
    "compute.images.getFromFamily",
    "compute.images.useReadOnly",
    "compute.instances.attachDisk",
    "compute.instances.create",
    "compute.instances.delete",
    "compute.instances.get",
    "compute.instances.getGuestAttributes",
    "compute.instances.getSerialPortOutput",
    "compute.instances.list",
    "compute.instances.reset",
    "compute.instances.setLabels",
    "compute.instances.setMetadata",
    "compute.instances.setTags",
    "compute.machineTypes.list",
    "compute.networks.updatePolicy",
    "compute.networks.use",
    "compute.networks.useExternalIp",
    "compute.projects.get",
    "compute.regions.get",
    "compute.resourcePolicies.create",
    "compute.resourcePolicies.delete",
    "compute.resourcePolicies.get",
    "compute.resourcePolicies.list",
    "compute.resourcePolicies.use",
    "compute.subnetworks.use",
    "compute.subnetworks.useExternalIp",
    "compute.zoneOperations.list",
)
"""What leases need."""

RESERVATION_RIGHTS = ("compute.reservations.get",)
"""What leases need where an account names reservations. Flex-start needs none of them."""

GET_NETWORK = "compute.networks.get"
GET_SUBNETWORK = "compute.subnetworks.get"
CHECK_RIGHTS = (GET_NETWORK, GET_SUBNETWORK)
"""Only the check needs them. Without them, the check cannot show subnetworks."""

SUBNETWORK_RIGHTS = ("compute.subnetworks.use", "compute.subnetworks.useExternalIp")
"""Needed on a subnetwork of another project (shared VPC)."""
