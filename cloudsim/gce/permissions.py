"""The permission that each call needs, and the list of permissions that a caller has: all but those that a test denies."""

from __future__ import annotations

from cloudsim.gce.call import Call, Result
from cloudsim.gce.catalog import PROVIDER
from cloudsim.gce.errors import GceError

_VERBS = {"insert": "create", "aggregatedList": "list", "bulkInsert": "create"}
_FREE = frozenset({"services.skus.list", "projects.testIamPermissions", "subnetworks.testIamPermissions", "token"})
"""Need no permission."""
_TO_MAKE_A_VM = (
    "compute.disks.create",
    "compute.images.useReadOnly",
    "compute.instances.setMetadata",
    "compute.instances.setTags",
    "compute.networks.use",
    "compute.networks.useExternalIp",
    "compute.resourcePolicies.use",
    "compute.subnetworks.use",
    "compute.subnetworks.useExternalIp",
)
_BESIDES = {
    "instances.insert": _TO_MAKE_A_VM,
    "instances.bulkInsert": _TO_MAKE_A_VM,
    "instances.attachDisk": ("compute.disks.use",),
    "firewalls.insert": ("compute.networks.updatePolicy",),
}
"""Of calls that need more than the permission of their own name (Compute Engine API reference, "IAM permissions")."""


def needed(operation: str) -> tuple[str, ...]:
    """`instances.insert` needs `compute.instances.create`, and more."""
    if operation in _FREE:
        return ()
    resource, _, verb = operation.partition(".")
    return f"compute.{resource}.{_VERBS.get(verb, verb)}", *_BESIDES.get(operation, ())


def check(call: Call, operation: str) -> None:
    """Raises GceError forbidden."""
    denied = call.world.restrictions.first_denied(PROVIDER, needed(operation))
    if denied is not None:
        raise GceError("forbidden", f"Required '{denied}' permission for 'projects/{call.project}'")


def test_iam_permissions(call: Call) -> Result:
    """The requested permissions that the caller has. Google leaves the list out when there are none."""
    asked = call.body.get("permissions", [])
    held = [permission for permission in asked if (PROVIDER, permission) not in call.world.restrictions.denied]
    return {"permissions": held} if held else {}
