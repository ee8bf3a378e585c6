"""Instances: insert, delete, reset, labels, lists, and what looks at single VMs."""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from functools import partial

from cloudsim.gce import links, operations, views
from cloudsim.gce.call import Call, Result, is_shown
from cloudsim.gce.catalog import OVERALL, PROVIDER
from cloudsim.gce.create_requests import read_order
from cloudsim.gce.errors import GceError, is_operation_code, not_found
from cloudsim.gce.labels import check as check_labels
from cloudsim.gce.listing import Kind, ListEntry, after, aggregated, asked, flat
from cloudsim.gce.places import overall_limit, overall_used
from cloudsim.world import (
    CapacityExhausted,
    FaultMode,
    Order,
    QuotaExceeded,
    ReservationFull,
    ReservationUnusable,
    Vm,
    VmState,
    WorldError,
)

KIND = Kind("instance", "instances")
AGGREGATED = "instances.aggregatedList"
POOL_EXHAUSTED, QUOTA_EXCEEDED = "ZONE_RESOURCE_POOL_EXHAUSTED", "QUOTA_EXCEEDED"
NO_RESOURCE = "RESOURCE_NOT_FOUND"
FAULT = "A fault was put upon this call by the simulator."
LATE = (CapacityExhausted, ReservationFull, ReservationUnusable, QuotaExceeded)
"""What Google reports inside the operation."""
_READY = "gpulease/ready"
_UP = frozenset({VmState.PENDING, VmState.RUNNING})


def insert(call: Call) -> Result:
    """Accepts a VM and returns the operation, which also reports a lack of capacity."""
    order = read_order(call)
    vm = call.world.replay(order) or _new(call, order)
    return operations.insertion(vm, call.now)


def _new(call: Call, order: Order) -> Vm:
    require_free_name(call, order.name)
    code = refusal_code(call)
    if code is not None:
        return refuse(call, order, code, fault_message(call, order.name, code))
    try:
        check_overall_quota(call, [order])
        return call.world.launch(left_behind(call, order))
    except LATE as error:
        return refuse(call, order, *refusal(call, error))


def refusal_code(call: Call) -> str | None:
    """The code with which the operation of each new VM ends. Raises GceError for a code that is the call's own answer."""
    code = call.world.restrictions.launch_code(PROVIDER, call.project)
    if code is not None and not is_operation_code(code):
        raise GceError(code, "The project may launch no instance at present.")
    return code or call.fault


def check_overall_quota(call: Call, orders: Sequence[Order]) -> None:
    """Raises QuotaExceeded when the GPUs of all regions together would be too many."""
    requested = sum(call.world.machine(PROVIDER, order.instance_type).counted for order in orders)
    used, limit = overall_used(call), overall_limit(call)
    if used + requested > limit:
        raise QuotaExceeded(OVERALL, limit, used, requested)


def left_behind(call: Call, order: Order) -> Order:
    """The order of a VM whose insert ends with an error although the VM is made, where a fault says so."""
    if call.change is None or call.change.mode is not FaultMode.FAIL_AFTER:
        return order
    code = call.change.code or NO_RESOURCE
    error = {"code": code, "message": fault_message(call, order.name, code)}
    return replace(order, spec={**order.spec, "insert_error": error})


def fault_message(call: Call, name: str, code: str) -> str:
    """What Google says with this code about a VM."""
    link = f"projects/{call.project}/zones/{call.zone}/instances/{name}"
    return f"The resource '{link}' was not found" if code == NO_RESOURCE else FAULT


def require_free_name(call: Call, name: str) -> None:
    """Raises GceError for the name of a VM that lives."""
    taken = call.names.find(call.project, call.zone, name)
    if taken is not None and taken.alive:
        link = f"projects/{call.project}/zones/{call.zone}/instances/{name}"
        raise GceError("alreadyExists", f"The resource '{link}' already exists")


def refusal(call: Call, error: WorldError) -> tuple[str, str]:
    """Code and message of one of `LATE`."""
    match error:
        case QuotaExceeded(code, limit):
            place = "globally" if code == OVERALL else f"in region {call.region}"
            return QUOTA_EXCEEDED, f"Quota '{code}' exceeded. Limit: {limit:.1f} {place}."
        case ReservationFull(key) | ReservationUnusable(key):
            name = key.rpartition("/")[2]
            return POOL_EXHAUSTED, f"Specified reservation '{name}' does not have available resources for the request."
    place = f"projects/{call.project}/zones/{call.zone}"
    return (
        POOL_EXHAUSTED,
        f"The zone '{place}' does not have enough resources available to fulfill the request. Try a different zone.",
    )


def refuse(call: Call, order: Order, code: str, message: str) -> Vm:
    """A VM that is refused after it was accepted."""
    spec = {**order.spec, "refused": True, "refusal": message}
    return call.world.refuse(replace(order, spec=spec, disks=(), nics=(), reservation=None), code)


def delete(call: Call) -> Result:
    """Begins to delete; answers the operation of a VM that is on its way already, too. `deletionProtection` refuses."""
    vm = call.vm()
    if vm.state in _UP and vm.spec.get("protected"):
        raise GceError(
            "invalidResourceUsage",
            "Invalid resource usage: 'Resource cannot be deleted if it's protected against deletion.'.",
        )
    if vm.state in _UP:
        vm.spec["ender"] = call.caller
        call.world.end(vm)
    ending = operations.ending(vm)
    assert ending is not None
    return ending


def reset(call: Call) -> Result:
    """Only a running VM can be reset; nothing of it shows."""
    vm = call.vm()
    if vm.state is not VmState.RUNNING:
        raise GceError("resourceNotReady", f"The resource '{views.instance(call.world, vm)['selfLink']}' is not ready")
    call.world.reboot(vm)
    return operations.at_once(call, "reset", _link(call, vm), vm.id)


def set_labels(call: Call) -> Result:
    """Replaces all labels, if they are still those of the fingerprint."""
    vm = call.vm()
    call.check_fingerprint(str(call.body.get("labelFingerprint")), links.fingerprint(sorted(vm.tags.items())))
    new_labels = check_labels(call.body.get("labels", {}))
    call.world.retag(vm, {**dict.fromkeys(vm.tags), **new_labels})
    return operations.at_once(call, "setLabels", _link(call, vm), vm.id)


def _link(call: Call, vm: Vm) -> str:
    return links.zonal(call.project, call.zone, "instances", vm.name)


def get(call: Call) -> Result:
    """One VM by name or number."""
    return _render(call, call.vm())


def list_(call: Call) -> Result:
    """One page of a zone's VMs."""
    entries = (entry for entry in _listed(call, [call.region]) if entry.zone == call.zone)
    return flat(call, KIND, entries, f"zones/{call.zone}/instances")


def aggregated_list(call: Call) -> Result:
    """One page of all zones' VMs."""
    call.cache.prune(call.world)
    return aggregated(call, KIND, _listed(call, call.world.catalogs[PROVIDER].regions), AGGREGATED)


def _listed(call: Call, regions: Iterable[str]) -> Iterator[ListEntry]:
    """Oldest first, beyond the last page; only those with a label when the filter names one exactly."""
    label = asked(call).exact("labels.")
    shelves = [call.world.shelf(PROVIDER, call.project, region) for region in regions]
    lists = [shelf.after(after(call), shelf.with_tag(*label) if label else None) for shelf in shelves]
    for vm in heapq.merge(*lists, key=lambda vm: vm.seq):
        if is_shown(vm, call.now):
            yield ListEntry(vm.seq, vm.zone, partial(_render, call, vm))


def _render(call: Call, vm: Vm) -> Result:
    return call.cache.get(vm, lambda cached: views.instance(call.world, cached))


def guest_attributes(call: Call) -> Result:
    """What the VM has written: `gpulease/ready`, once it is."""
    vm = call.vm()
    path = call.query.get("queryPath", "")
    enabled = vm.spec["metadata"].get("enable-guest-attributes", "").upper() == "TRUE"
    if path != _READY or not enabled or not vm.is_ready(call.now):
        raise not_found(f"projects/{call.project}/zones/{call.zone}/instances/{vm.name}/guestAttributes/{path}")
    namespace, _, key = path.partition("/")
    return {
        "kind": "compute#guestAttributes",
        "queryPath": path,
        "queryValue": {"items": [{"namespace": namespace, "key": key, "value": "1"}]},
        "selfLink": f"{_link(call, vm)}/guestAttributes/{path}",
    }


def serial_port_output(call: Call) -> Result:
    """What the kernel prints; nothing before the VM runs."""
    vm = call.vm()
    text = ""
    if vm.state is VmState.RUNNING:
        text = "[    0.000000] Linux version 6.8.0-1020-gcp\r\n\x1b[0;32m[  OK  ]\x1b[0m Reached target multi-user.target\r\n"
        text += vm.printed
    return {
        "kind": "compute#serialPortOutput",
        "contents": text,
        "start": "0",
        "next": str(len(text)),
        "selfLink": f"{_link(call, vm)}/serialPort",
    }
