"""instances.bulkInsert: several VMs under given names. Each has an operation, all of one group."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from cloudsim.gce import operations
from cloudsim.gce.call import Call, Result
from cloudsim.gce.create_requests import read_order
from cloudsim.gce.errors import GceError, invalid
from cloudsim.gce.instances import (
    LATE,
    POOL_EXHAUSTED,
    check_overall_quota,
    fault_message,
    left_behind,
    refusal,
    refusal_code,
    refuse,
    require_free_name,
)
from cloudsim.world import CapacityExhausted, Order, Vm, batches

MOST_VMS = 1_000


def insert(call: Call) -> Result:
    """Accepts the VMs and returns one operation. The operations of its group report the outcome of each VM."""
    orders = _orders(call)
    vms = batches.replayed(call.world, orders)
    if not vms:
        vms = _launch(call, orders)
        vms[0].spec["bulk"] = {"vms": [vm.id for vm in vms], "least": _least(call)}
        call.world.touch(vms[0])
    answer = next(filter(None, (operations.bulk_insertion(call, vm) for vm in vms)), None)
    if answer is None:
        raise GceError("backendError", "The operation of this request is not known any more.")
    return answer


def _orders(call: Call) -> list[Order]:
    """One order for each name. Google starts them in an order of its own: here in that of the names."""
    names, properties = _names(call), call.body.get("instanceProperties", {})
    if "/" in properties.get("machineType", ""):
        raise GceError("internalError", "The machine type must be a name.")
    if any("diskName" in disk.get("initializeParams", {}) for disk in properties.get("disks", [])) and names[1:]:
        raise invalid("resource.instanceProperties.disks", "Disks of several instances cannot have one name.")
    group = call.world.hex(32)
    orders = [read_order(replace(call, body={**properties, "name": name}), of_bulk=True) for name in names]
    return [replace(order, slot=slot, spec={**order.spec, "group": group}) for slot, order in enumerate(orders)]


def _names(call: Call) -> list[str]:
    names = sorted(call.body.get("perInstanceProperties", {}))
    count, least = int(call.body.get("count", 0)), _least(call)
    if not 1 <= count <= MOST_VMS:
        raise invalid("resource.count", f"'{count}'. It must be between 1 and {MOST_VMS}.")
    if not 1 <= least <= count:
        raise invalid("resource.minCount", f"'{least}'. It must be between 1 and count.")
    if len(names) != count:
        raise invalid("resource.perInstanceProperties", f"It names {len(names)} instances, and count is {count}.")
    return names


def _least(call: Call) -> int:
    return int(call.body.get("minCount", call.body.get("count", 0)))


def _launch(call: Call, orders: Sequence[Order]) -> list[Vm]:
    for order in orders:
        require_free_name(call, order.name)
    code = refusal_code(call)
    if code is not None:
        return [refuse(call, order, code, fault_message(call, order.name, code)) for order in orders]
    orders = [left_behind(call, order) for order in batches.answered(orders, call.change)]
    try:
        check_overall_quota(call, orders)
        room = batches.room(call.world, orders, least=1, fault=call.change)
    except LATE as error:
        return [refuse(call, order, *refusal(call, error)) for order in orders]
    _, text = refusal(call, CapacityExhausted(orders[0].instance_type, orders[0].zones))
    refused = [refuse(call, order, POOL_EXHAUSTED, text) for order in orders[room:]]
    started = batches.launch(call.world, orders[:room])
    if room < _least(call):
        for vm in started:
            call.world.end(vm, operations.ROLLBACK)
    return [*started, *refused]
