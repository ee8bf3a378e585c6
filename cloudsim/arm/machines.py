"""Virtual machines: create, look, tag, restart, delete, and the serial console."""

from __future__ import annotations

from dataclasses import replace

from cloudsim.arm import create_requests, quotas, views
from cloudsim.arm.attach import attach
from cloudsim.arm.call import TYPES, VMS, Answer, Call, Document
from cloudsim.arm.catalog import PROVIDER, QUOTA_NAMES
from cloudsim.arm.errors import ArmError, locked, not_found
from cloudsim.arm.images import drives
from cloudsim.arm.paging import paged
from cloudsim.world import (
    CapacityExhausted,
    FaultMode,
    Order,
    QuotaExceeded,
    ReservationFull,
    ReservationUnusable,
    ResourceKind,
    Vm,
    VmState,
)

RETRY_SECONDS = "10"


def create_or_update(call: Call) -> Answer:
    """Accepts a VM. Whether there is room for it shows later: then it fails, and stays until it is deleted."""
    if call.existing(call.name) is not None:
        if call.headers.get("if-none-match") == "*":
            raise ArmError("PreconditionFailed", f"The resource '{call.name}' exists: If-None-Match is not satisfied.")
        raise ArmError("PropertyChangeNotAllowed", "Changing a virtual machine by PUT is not simulated.")
    order = create_requests.read_order(call)
    call.world.forget_token(call.token_key(call.name))
    vm = _launch(call, order)
    if not drives(vm.image, call.world.machine(PROVIDER, vm.instance_type).gpu):
        vm.ready_at = None
    _attach(call, vm)
    return Answer(views.virtual_machine(call.world, vm), 201, _operation(call, vm))


def _launch(call: Call, order: Order) -> Vm:
    try:
        quotas.check_region(call.world, order)
        return call.world.launch(order)
    except ReservationFull:
        return _launch(call, replace(order, reservation=None))  # Azure starts VMs beyond the reserved number too
    except ReservationUnusable:
        raise ArmError("BadRequest", "The VM does not match its capacity reservation group.") from None
    except CapacityExhausted:
        zonal = order.zones[0] != order.region
        return call.world.refuse(order, "ZonalAllocationFailed" if zonal else "AllocationFailed")
    except QuotaExceeded as exceeded:
        raise ArmError(
            "OperationNotAllowed",
            f"Operation could not be completed as it results in exceeding approved {QUOTA_NAMES[exceeded.code]} "
            f"({exceeded.code}) quota. Current Limit: {exceeded.limit}, Current Usage: {exceeded.used}, "
            f"Additional Required: {exceeded.requested}.",
        ) from None


def _attach(call: Call, vm: Vm) -> None:
    """What the world's resources cannot know: the VM's id at Azure, addresses, which address belongs to which interface."""
    address = create_requests.public_address(call, vm)
    if address is not None:
        vm.resources.append(address.id)
        call.world.add_resource(address)
    attach(call.world.resources, vm, address.id if address is not None else None)


def _operation(call: Call, vm: Vm) -> dict[str, str]:
    path = f"/subscriptions/{vm.account}/providers/Microsoft.Compute/locations/{vm.region}/operations/{vm.id}.create"
    return {"Azure-AsyncOperation": f"{call.base}{path}?api-version=2026-04-01", "Retry-After": RETRY_SECONDS}


def _named(call: Call) -> Vm:
    vm = call.existing(call.name)
    if vm is None or vm.visible_at > call.now:
        raise not_found(VMS, call.name, call.group)
    return vm


def get(call: Call) -> Answer:
    """One VM; `$expand=instanceView`."""
    return Answer(views.virtual_machine(call.world, _named(call), view=call.query.get("$expand") == "instanceView"))


def instance_view(call: Call) -> Answer:
    """One VM's run-time state."""
    return Answer(views.instance_view(call.world, _named(call)))


def update(call: Call) -> Answer:
    """Tags, which replace those there are."""
    vm = _named(call)
    _check_free(call, vm)
    if set(call.body) != {"tags"}:
        raise ArmError("InvalidParameter", "Only tags can be changed here.")
    new_tags = create_requests.check_tags(call.body["tags"])
    vm.spec["changed_at"] = call.now
    vm.spec["updated_until"] = call.now + call.world.settings.update_seconds
    vm.spec["update_failure"] = _failure_afterwards(call)
    call.world.retag(vm, {key: None for key in vm.tags if key not in new_tags} | new_tags)
    return Answer(views.virtual_machine(call.world, vm), 200, _operation(call, vm))


def _check_free(call: Call, vm: Vm) -> None:
    """Refuses an update or a deletion soon after an accepted create or update call."""
    changed_at = max(vm.launched_at, vm.spec.get("changed_at", 0.0))
    if vm.alive and call.now < changed_at + call.world.settings.busy_seconds:
        raise ArmError(
            "AnotherOperationInProgress",
            f"Another operation on this or dependent resource is in progress: '{call.id_of(VMS, call.name)}'.",
        )


def _failure_afterwards(call: Call) -> str | None:
    """The code with which an accepted update fails. None: it succeeds, which also ends an earlier failure."""
    if call.change is None or call.change.mode is not FaultMode.FAIL_AFTER:
        return None
    return call.change.code or "InternalOperationError"


def delete(call: Call) -> Answer:
    """Begins to delete; nothing to do for what does not exist."""
    vm = call.existing(call.name)
    if vm is None or vm.visible_at > call.now:
        return Answer(status=204)
    if vm.spec.get("protected"):
        raise locked(call.id_of(VMS, call.name))
    _check_free(call, vm)
    call.world.end(vm)
    return Answer(status=202, headers=_operation(call, vm))


def restart(call: Call) -> Answer:
    """Only a running VM takes it; nothing shows of it."""
    vm = _named(call)
    if vm.state is not VmState.RUNNING:
        raise ArmError(
            "OperationNotAllowed", f"The virtual machine '{vm.name}' is not in a state that allows a restart."
        )
    call.world.reboot(vm)
    return Answer(status=202, headers=_operation(call, vm))


def attach_disks(call: Call) -> Answer:
    """Attaches managed disks of the VM's zone. Azure refuses a disk that another VM has."""
    vm = _named(call)
    _check_free(call, vm)
    if vm.state is not VmState.RUNNING:
        raise ArmError("OperationNotAllowed", f"The virtual machine '{vm.name}' is not running.")
    for wish in call.body.get("dataDisksToAttach") or ():
        _attach_disk(call, vm, wish)
    vm.spec["changed_at"] = call.now
    return Answer(views.storage(call.world, vm), 202, _operation(call, vm))


def _attach_disk(call: Call, vm: Vm, wish: Document) -> None:
    disk = call.world.resources.get(wish["diskId"])
    if disk is None:
        raise not_found(TYPES[ResourceKind.VOLUME], wish["diskId"], call.group)
    if disk.vm_id == vm.id:
        return
    if disk.vm_id is not None or not call.world.is_made(disk):
        raise ArmError("AttachDiskWhileBeingDetached", f"Disk '{disk.id}' cannot be attached to '{vm.name}' now.")
    if disk.zone != vm.zone:
        raise ArmError("BadRequest", f"Disk '{disk.id}' is not in the zone of the virtual machine.")
    held = (call.world.resources.get(resource_id) for resource_id in vm.resources)
    if wish.get("lun") in [part.spec.get("lun") for part in held if part is not None and part.vm_id == vm.id]:
        raise ArmError("InvalidParameter", "Each data disk needs a lun of its own.")
    call.world.attach(disk, vm, {"lun": wish.get("lun"), "vm": views.vm_id(vm)})
    disk.delete_with_vm = wish.get("deleteOption", "Detach") == "Delete"


def in_group(call: Call) -> Answer:
    """A page of the group's VMs."""
    vms = [vm for vm in call.vms() if vm.spec["group"].lower() == call.group.lower()]
    return paged(call, vms, lambda vm: views.virtual_machine(call.world, vm))


def in_subscription(call: Call) -> Answer:
    """A page of the subscription's VMs, or of their statuses."""
    if call.query.get("statusonly") == "true":
        lacks_power = call.change is not None and call.change.mode is FaultMode.INCOMPLETE
        return paged(call, call.vms(), lambda vm: views.status_only(call.world, vm, lacks_power=lacks_power))
    return paged(call, call.vms(), lambda vm: views.virtual_machine(call.world, vm))


def in_location(call: Call) -> Answer:
    """A page of the subscription's VMs in a region."""
    vms = [vm for vm in call.vms() if vm.region == call.path["location"]]
    return paged(call, vms, lambda vm: views.virtual_machine(call.world, vm))


def boot_diagnostics(call: Call) -> Answer:
    """Where the console's blob is."""
    vm = _named(call)
    return Answer({"serialConsoleLogBlobUri": f"{call.base}/bootdiagnostics/{vm.id}/serialconsole.log?sig=simulated"})


def operation(call: Call) -> Answer:
    """The state of an accepted creation."""
    vm = call.world.vms.get(call.path["id"].removesuffix(".create"))
    if vm is None or vm.provider != PROVIDER or vm.account != call.subscription:
        raise ArmError("NotFound", "The entity was not found.")
    return Answer(views.operation(call.world, vm))


def serial_console(vm: Vm, now: float) -> str:
    """What the kernel prints, and the agent once it runs; nothing before."""
    if vm.state is not VmState.RUNNING:
        return ""
    started = "[    0.000000] Linux version 6.8.0-1021-azure\r\n\x1b[0;32m[  OK  ]\x1b[0m Reached target network-online.target\r\n"
    return started + ("walinuxagent: Provisioning complete\r\n" if vm.is_ready(now) else "") + vm.printed
