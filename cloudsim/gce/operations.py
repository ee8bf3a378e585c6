"""Operations: what Compute Engine returns for a change, and reports of a VM's life afterwards.

Those of a VM are read off the VM itself, so they last as long as the world remembers it; all others are done at once and
not remembered.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from typing import Any

from cloudsim.gce import links
from cloudsim.gce.call import Call, Result
from cloudsim.gce.catalog import PROVIDER
from cloudsim.gce.errors import not_found
from cloudsim.gce.filters import Filter
from cloudsim.gce.listing import Kind, ListEntry, after, aggregated, asked, flat
from cloudsim.world import QUEUE_ENDED, Vm, VmState

AGGREGATED = "globalOperations.aggregatedList"
SYSTEM = "system"
ROLLBACK = "rollback"
"""End code of a VM that Google deletes again, because its bulkInsert has not created enough VMs."""
_KIND = Kind("operation", "operations")
_WAYS_OUT = {
    "user": "delete",
    ROLLBACK: "delete",
    "instance": "compute.instances.guestTerminate",
    "reclaimed": "compute.instances.preempted",
}
_DEFAULT_CODE = "INTERNAL_ERROR"
_CODES = {QUEUE_ENDED: "ZONE_RESOURCE_POOL_EXHAUSTED"}


def _operation(
    vm: Vm, kind: str, *, began: float, ended: float | None, user: str, error: Result | None = None
) -> Result:
    number = links.number(kind, vm.id)
    name = f"operation-{number}"
    done: Result = {"status": "RUNNING", "progress": 0}
    if ended is not None:
        done = {"status": "DONE", "progress": 100, "endTime": links.rfc3339(ended)}
    return {
        "kind": "compute#operation",
        "id": number,
        "name": name,
        "zone": links.zonal(vm.account, vm.zone),
        "operationType": kind,
        "targetLink": links.zonal(vm.account, vm.zone, "instances", vm.name),
        "targetId": vm.id,
        "user": user,
        "insertTime": links.rfc3339(began),
        "startTime": links.rfc3339(began),
        "selfLink": links.zonal(vm.account, vm.zone, "operations", name),
        **done,
        **(error or {}),
    }


def insertion(vm: Vm, now: float) -> Result:
    """The VM's creation: running until the VM runs, with an error when it was refused instead."""
    return {**_insertion(vm, now), **_origin(vm)}


def _origin(vm: Vm) -> Result:
    """The call that created the VM: by its request id, or the group of a bulkInsert."""
    group = vm.spec.get("group")
    if group is not None:
        return {"operationGroupId": group}
    return {"clientOperationId": vm.token} if vm.token is not None else {}


def bulk_insertion(call: Call, first: Vm) -> Result | None:
    """The bulkInsert whose first VM this is, or None. It is done when the operations of its VMs are."""
    record = first.spec.get("bulk")
    if record is None:
        return None
    vms = [call.world.vms[vm_id] for vm_id in record["vms"] if vm_id in call.world.vms]
    inserts = [insertion(vm, call.now) for vm in vms]
    failed = [insert for insert in inserts if "error" in insert]
    running = [insert for insert in inserts if insert["status"] != "DONE"]
    created = len(inserts) - len(failed) - len(running)
    rolled_back = sum(vm.end_code == ROLLBACK for vm in vms)
    ended = None if running else max(_insert_ended_at(vm) for vm in vms)
    short = not running and created - rolled_back < record["least"]
    error = _summary(record["least"], failed) if short else None
    zone = f"zones/{first.zone}"
    status = {
        "status": "CREATING" if running else "DONE",
        "targetVmCount": len(vms),
        "createdVmCount": created,
        "failedToCreateVmCount": len(failed),
        "deletedVmCount": rolled_back,
    }
    return {
        **_operation(first, "bulkInsert", began=first.launched_at, ended=ended, user=first.spec["caller"], error=error),
        "targetLink": links.zonal(first.account, first.zone),
        "operationGroupId": first.spec["group"],
        **({"clientOperationId": first.token} if first.token is not None else {}),
        "instancesBulkInsertOperationMetadata": {"perLocationStatus": {zone: status}},
    }


def _summary(least: int, failed: Sequence[Result]) -> Result:
    """The error of a bulkInsert that has not created enough VMs: first that, then why, each code once."""
    text = f"Requested minimum count of {least} VMs could not be created."
    causes = {error["code"]: error for insert in failed for error in insert["error"]["errors"]}
    return _error([{"code": "VM_MIN_COUNT_NOT_REACHED", "message": text}, *causes.values()])


def _error(errors: Sequence[Result]) -> Result:
    unavailable = {"httpErrorStatusCode": 503, "httpErrorMessage": "SERVICE UNAVAILABLE"}
    return {"error": {"errors": [dict(error) for error in errors]}, **unavailable}


def _insert_ended_at(vm: Vm) -> float:
    """When the creation of a VM that is not at work any more was over."""
    if "insert_error" in vm.spec:
        return vm.launched_at
    return (vm.ended_at if _refused(vm) else None) or min(vm.running_at, vm.ending_at or vm.running_at)


def _insertion(vm: Vm, now: float) -> Result:
    user = vm.spec.get("caller", SYSTEM)
    if "insert_error" in vm.spec:
        error = _error([vm.spec["insert_error"]])
        return _operation(vm, "insert", began=vm.launched_at, ended=vm.launched_at, user=user, error=error)
    if _refused(vm):
        code = _CODES.get(vm.end_code, vm.end_code or _DEFAULT_CODE)
        message = vm.spec.get("refusal", f"The zone does not make this instance: {code}.")
        error = _error([{"code": code, "message": message}])
        return _operation(vm, "insert", began=vm.launched_at, ended=vm.ended_at, user=user, error=error)
    ended = min(vm.running_at, vm.ending_at or vm.running_at)
    return _operation(vm, "insert", began=vm.launched_at, ended=ended if ended <= now else None, user=user)


def _refused(vm: Vm) -> bool:
    return vm.boot_failure is not None and vm.state is VmState.TERMINATED and vm.end_code == vm.boot_failure


def ending(vm: Vm) -> Result | None:
    """How the VM ended or is ending, None while it does not."""
    if vm.ending_at is None or _refused(vm):
        return None
    kind = _WAYS_OUT.get(vm.end_code, "compute.instances.automaticRestart")
    done = vm.ending_at if vm.end_code == "reclaimed" else vm.ended_at
    user = SYSTEM if kind != "delete" else vm.spec.get("ender", SYSTEM)
    return _operation(vm, kind, began=vm.ending_at, ended=done, user=user)


def at_once(call: Call, kind: str, link: str, target: str) -> Result:
    """A change that is done when it is answered."""
    number = links.number(kind, target, str(call.now))
    where: dict[str, Any] = {"zone": links.zonal(call.project, call.zone)} if call.zone else {}
    moment = links.rfc3339(call.now)
    name = f"operation-{number}"
    return {
        "kind": "compute#operation",
        "id": number,
        "name": name,
        "operationType": kind,
        "targetLink": link,
        "targetId": target,
        "status": "DONE",
        "progress": 100,
        "user": call.caller,
        "insertTime": moment,
        "startTime": moment,
        "endTime": moment,
        "selfLink": links.zonal(call.project, call.zone, "operations", name)
        if call.zone
        else links.everywhere(call.project, "operations", name),
        **where,
    }


def every(call: Call, chosen: Filter) -> Iterator[Result]:
    """Operations of the project's VMs (of the call's zone, if it names one) that the filter may choose, oldest VM first.

    A fresh operation does not show yet.
    """
    kinds = chosen.exact("operationType")
    latest = call.now - call.world.settings.operation_lag_seconds
    for vm in _vms(call, chosen):
        if (vm.provider, vm.account) != (PROVIDER, call.project) or call.zone not in ("", vm.zone):
            continue
        if vm.launched_at > latest:
            continue
        bulk = bulk_insertion(call, vm) if kinds is None or "bulkInsert" in kinds[1] else None
        if bulk is not None:
            yield bulk
        if kinds is None or "insert" in kinds[1]:
            yield insertion(vm, call.now)
        is_chosen = kinds is None or _WAYS_OUT.get(vm.end_code) in kinds[1]
        end = ending(vm) if is_chosen and (vm.ending_at or 0.0) <= latest else None
        if end is not None:
            yield end


def _vms(call: Call, chosen: Filter) -> Iterable[Vm]:
    """All, or those that the filter names by number."""
    targets = chosen.exact("targetId")
    if targets is None:
        return call.world.vms.values()
    return [call.world.vms[number] for number in targets[1] if number in call.world.vms]


def get(call: Call) -> Result:
    """One operation by name or number. Raises GceError notFound."""
    name_or_id = call.path["operation"]
    for operation in every(call, Filter()):
        if name_or_id in (operation["id"], operation["name"]):
            return operation
    raise not_found(f"projects/{call.project}/zones/{call.zone}/operations/{name_or_id}")


def list_(call: Call) -> Result:
    """One page of a zone's operations."""
    return flat(call, _KIND, _listed(call), f"zones/{call.zone}/operations")


def aggregated_list(call: Call) -> Result:
    """One page of all zones' operations."""
    return aggregated(call, _KIND, _listed(call), AGGREGATED)


def _listed(call: Call) -> Iterator[ListEntry]:
    start = after(call)
    for position, operation in enumerate(every(call, asked(call)), start=1):
        if position > start:
            yield ListEntry(position, links.last(operation["zone"]), partial(dict, operation))
