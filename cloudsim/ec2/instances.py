"""TerminateInstances, RebootInstances, DescribeInstances and what looks at single VMs."""

from __future__ import annotations

import base64
import re
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from cloudsim.ec2 import views
from cloudsim.ec2.call import Call, Result
from cloudsim.ec2.errors import AwsError, dry_run
from cloudsim.ec2.filters import compiled, has_wildcard
from cloudsim.ec2.paging import page_size, seal, unseal_number
from cloudsim.host_keys import public_line
from cloudsim.world import (
    Market,
    Vm,
    VmState,
)

_INSTANCE_ID = re.compile(r"i-([0-9a-f]{8}|[0-9a-f]{17})")
_FIELDS: dict[str, Callable[[Vm], str | Iterable[str] | None]] = {
    "availability-zone": lambda vm: vm.zone,
    "client-token": lambda vm: vm.token,
    "image-id": lambda vm: vm.image,
    "instance-id": lambda vm: vm.id,
    "instance-lifecycle": lambda vm: "spot" if vm.market is Market.SPOT else None,
    "instance-state-name": lambda vm: vm.state.value,
    "instance-type": lambda vm: vm.instance_type,
    "placement-group-name": lambda vm: vm.spec.get("placement_group") or None,
    "spot-instance-request-id": lambda vm: vm.spec["spot"]["id"] if vm.market is Market.SPOT else None,
}


def refuse_dry_run(call: Call) -> None:
    """Raises AwsError DryRunOperation for a valid call that requests only a test."""
    if call.params.get("DryRun"):
        raise dry_run()


def require(call: Call, vm_ids: Iterable[str]) -> list[Vm]:
    """The named VMs. Raises AwsError InvalidInstanceID.Malformed or .NotFound, naming all missing ones."""
    ids = list(vm_ids)
    for vm_id in ids:
        if not _INSTANCE_ID.fullmatch(vm_id):
            raise AwsError("InvalidInstanceID.Malformed", f'Invalid id: "{vm_id}" (expecting "i-...")')
    by_id = {vm_id: call.vm(vm_id) for vm_id in ids}
    missing = [vm_id for vm_id, vm in by_id.items() if vm is None]
    if missing:
        names = ", ".join(missing)
        raise AwsError(
            "InvalidInstanceID.NotFound",
            f"The instance IDs '{names}' do not exist" if missing[1:] else f"The instance ID '{names}' does not exist",
        )
    return [vm for vm in by_id.values() if vm is not None]


def terminate_instances(call: Call) -> Result:
    """End all named VMs, or none when one of them is unknown.

    A protected VM fails the call and keeps the others of its zone; those of other zones are ended all the same.
    """
    vms = require(call, call.params["InstanceIds"])
    protected = [vm for vm in vms if vm.spec["protected"] and vm.state is not VmState.TERMINATED]
    refuse_dry_run(call)
    kept_zones = {vm.zone for vm in protected}
    ended = [_terminate(call, vm) for vm in vms if vm.zone not in kept_zones]
    if protected:
        raise AwsError(
            "OperationNotPermitted",
            f"The instance '{protected[0].id}' may not be terminated. Modify its 'disableApiTermination' instance "
            "attribute and try again.",
        )
    return {"TerminatingInstances": ended}


def _terminate(call: Call, vm: Vm) -> dict[str, Any]:
    before = views.state(vm.state)
    call.world.end(vm)
    return {"InstanceId": vm.id, "CurrentState": views.state(vm.state), "PreviousState": before}


def reboot_instances(call: Call) -> Result:
    """A reboot changes nothing that EC2 shows; only a running or pending VM takes it."""
    vms = require(call, call.params["InstanceIds"])
    for vm in vms:
        if vm.state not in (VmState.PENDING, VmState.RUNNING):
            raise AwsError("IncorrectState", f"The instance '{vm.id}' is not in a state from which it can be rebooted.")
    refuse_dry_run(call)
    for vm in vms:
        call.world.reboot(vm)
    return {}


def describe_instances(call: Call) -> Result:
    """One page of reservations, oldest launch first."""
    vms, token = select(call)
    call.cache.prune(call.world)
    return {"Reservations": [call.cache.get(vm, call.render_reservation) for vm in vms], "NextToken": token}


def select(call: Call, also: Callable[[Vm], bool] = lambda _: True) -> tuple[list[Vm], str | None]:
    """VMs that ids, filters and `also` leave, one page of them, and the next page's token."""
    params = call.params
    matches = compiled(params.get("Filters", []), _FIELDS, lambda vm: vm.tags)
    if params.get("InstanceIds"):
        if params.get("MaxResults") is not None:
            raise AwsError(
                "InvalidParameterCombination", "The parameter instancesSet cannot be used with the parameter maxResults"
            )
        named = require(call, params["InstanceIds"])
        return [vm for vm in named if matches(vm) and also(vm)], None
    candidates = _candidates(call, unseal_number(call))
    return _fill(
        call,
        (vm for vm in candidates if vm.visible_at <= call.now and matches(vm) and also(vm)),
        page_size(params, least=5),
    )


def _candidates(call: Call, after: int) -> Iterator[Vm]:
    """VMs beyond `after` that can match: only those with the tag when a filter names one exactly."""
    shelf = call.shelf
    exact = [raw for raw in call.params.get("Filters", []) if not any(has_wildcard(v) for v in raw.get("Values", []))]
    among = [
        shelf.with_tag(raw["Name"].removeprefix("tag:"), raw.get("Values", []))
        for raw in exact
        if raw["Name"].startswith("tag:")
    ]
    return shelf.after(after, min(among, key=len, default=None))


def _fill(call: Call, vms: Iterator[Vm], size: int) -> tuple[list[Vm], str | None]:
    page_vms: list[Vm] = []
    for vm in vms:
        if len(page_vms) == size:
            return page_vms, seal(call, str(page_vms[-1].seq))
        page_vms.append(vm)
    return page_vms, None


def describe_instance_status(call: Call) -> Result:
    """Status checks; running VMs only unless IncludeAllInstances."""
    everything = call.params.get("IncludeAllInstances", False)
    vms, token = select(call, lambda vm: everything or vm.state is VmState.RUNNING)
    return {"InstanceStatuses": [_status(vm, call.now) for vm in vms], "NextToken": token}


def _status(vm: Vm, now: float) -> dict[str, Any]:
    summary, detail = "not-applicable", None
    if vm.state is VmState.RUNNING:
        summary, detail = ("ok", "passed") if vm.is_ready(now) else ("initializing", "initializing")
    details = [{"Name": "reachability", "Status": detail}] if detail else []
    check = {"Status": summary, "Details": details}
    return {
        "InstanceId": vm.id,
        "AvailabilityZone": vm.zone,
        "InstanceState": views.state(vm.state),
        "InstanceStatus": check,
        "SystemStatus": check,
    }


def get_console_output(call: Call) -> Result:
    """What the kernel and cloud-init print, host keys once the VM is up; nothing before it runs."""
    (vm,) = require(call, [call.params["InstanceId"]])
    refuse_dry_run(call)
    output = _console(vm, call.now)
    return {
        "InstanceId": vm.id,
        "Timestamp": call.now,
        "Output": base64.b64encode(output.encode()).decode() or None,
    }


def _console(vm: Vm, now: float) -> str:
    if vm.state is not VmState.RUNNING:
        return ""
    started = "[    0.000000] Linux version 6.8.0-1012-aws\r\n\x1b[0;32m[  OK  ]\x1b[0m Reached target network-online.target\r\n"
    return started + (_host_keys(vm) if vm.is_ready(now) else "") + vm.printed


def _host_keys(vm: Vm) -> str:
    return (
        "-----BEGIN SSH HOST KEY KEYS-----\n"
        f"{public_line(vm.public_ip or vm.id)} root@{vm.private_ip}\n"
        "-----END SSH HOST KEY KEYS-----\n"
    )
