"""Resource policies for compact placement, and what a VM in one must respect."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

from cloudsim.gce import links, operations
from cloudsim.gce.call import Call, Result
from cloudsim.gce.catalog import PROVIDER
from cloudsim.gce.errors import GceError, invalid, not_found
from cloudsim.gce.listing import Kind, ListEntry, after, flat
from cloudsim.world import Resource, ResourceKind

KIND = Kind("resourcePolicy", "items")
_COLLOCATED = {"collocation": "COLLOCATED"}
_NOT_COMPACT = ("n1-",)


def insert(call: Call) -> Result:
    """Raises GceError alreadyExists for a name that is taken in the region."""
    body, name = call.body, call.body.get("name", "")
    if any(policy.spec["name"] == name for policy in _policies(call)):
        raise GceError("alreadyExists", f"The resource '{_path(call, name)}' already exists")
    placement = body.get("groupPlacementPolicy")
    if placement is None or {**_COLLOCATED, **placement} != placement or set(placement) - {"collocation", "vmCount"}:
        raise invalid("resource.groupPlacementPolicy", "Only compact placement is simulated.")
    policy = Resource(
        kind=ResourceKind.PLACEMENT_GROUP,
        provider=PROVIDER,
        account=call.project,
        region=call.region,
        zone="",
        id=str((1 << 60) | call.world.rng.getrandbits(60)),
        tags={},
        created_at=call.now,
        spec=dict(body),
    )
    call.world.add_resource(policy)
    return operations.at_once(call, "insert", _link(call, name), policy.id)


def get(call: Call) -> Result:
    """One policy by name or number."""
    return _view(call, _policy(call))


def list_(call: Call) -> Result:
    """One page of a region's policies."""
    return flat(call, KIND, _listed(call), f"regions/{call.region}/resourcePolicies")


def _listed(call: Call) -> Iterator[ListEntry]:
    start = after(call)
    for position, policy in enumerate(_policies(call), start=1):
        if position > start:
            yield ListEntry(position, "", partial(_view, call, policy))


def delete(call: Call) -> Result:
    """Raises GceError resourceInUseByAnotherResource while a VM uses it."""
    policy = _policy(call)
    name = str(policy.spec["name"])
    if next(call.world.in_placement_group(_key(call, name)), None) is not None:
        message = f"The resource_policy resource '{_path(call, name)}' is already being used by an instance"
        raise GceError("resourceInUseByAnotherResource", message)
    call.world.remove_resource(policy.id)
    return operations.at_once(call, "delete", _link(call, name), policy.id)


def of_instance(call: Call, machine: str, *, is_name: bool) -> str | None:
    """Key of the placement of the VM in the call's body, or None. `is_name`: of a bulkInsert, which takes no links.

    Raises GceError for a policy that does not exist, is of another region, or does not fit the machine.
    """
    policies: list[str] = call.body.get("resourcePolicies", [])
    if not policies:
        return None
    if len(policies) > 1 or is_name != ("/" not in policies[0]):
        raise invalid("resource.resourcePolicies", f"'{policies[0]}'. One policy, a name here and a link there.")
    if not is_name and f"projects/{call.project}/regions/{call.region}/" not in policies[0]:
        raise invalid("resource.resourcePolicies", f"'{policies[0]}'. It must be in the region of the instance.")
    name = links.last(policies[0])
    if all(policy.spec["name"] != name for policy in _policies(call)):
        raise not_found(_path(call, name))
    if machine.startswith(_NOT_COMPACT):
        raise invalid("resource.resourcePolicies", f"Compact placement is not supported for '{machine}'.")
    return _key(call, name)


def _key(call: Call, name: str) -> str:
    return f"{PROVIDER}/{call.project}/{call.region}/{name}"


def _path(call: Call, name: str) -> str:
    return f"projects/{call.project}/regions/{call.region}/resourcePolicies/{name}"


def _link(call: Call, name: str) -> str:
    return links.regional(call.project, call.region, "resourcePolicies", name)


def _policy(call: Call) -> Resource:
    name_or_id = call.path["resourcePolicy"]
    for policy in _policies(call):
        if name_or_id in (policy.id, policy.spec["name"]):
            return policy
    raise not_found(_path(call, name_or_id))


def _policies(call: Call) -> Iterator[Resource]:
    return call.world.resources_of(PROVIDER, call.project, call.region, ResourceKind.PLACEMENT_GROUP)


def _view(call: Call, of: Resource) -> Result:
    return {
        "kind": "compute#resourcePolicy",
        "id": of.id,
        "creationTimestamp": links.rfc3339(of.created_at),
        "region": links.regional(call.project, of.region),
        "selfLink": _link(call, str(of.spec["name"])),
        "status": "READY",
        **of.spec,
    }
