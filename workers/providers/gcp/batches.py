"""Launch batches: several VMs of one tenant with one instances.bulkInsert call, each known by its name."""

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, cast

from app.domain import tags
from app.domain.tags import OwnerTags
from app.domain.tokens import launch_name
from workers.providers.common import slot_tokens
from workers.providers.errors import (
    InsufficientCapacity,
    OutcomeUnknown,
    ProviderError,
    ProviderQuotaExceeded,
    Refused,
    TokenConflict,
)
from workers.providers.gcp import catalogue, deadlines, firewall, groups, instances, launch, operations, resource_tags
from workers.providers.gcp.catalogue import Machine
from workers.providers.gcp.clients import GcpClients
from workers.providers.gcp.errors import creating, fitting
from workers.providers.gcp.ids import Id, last
from workers.providers.gcp.launch import RULES, ZONE
from workers.providers.gcp.sdk import BulkInsertInstanceResource, InstancesClient, Operation
from workers.providers.gcp.settings import GcpAccount
from workers.providers.gcp.vms import from_instance
from workers.providers.send_window import create_call
from workers.providers.types import BatchLaunched, BatchResult, LaunchSpec, Params, Slot, Vm

BULK, NAMES = "bulk", "names"
"""Parts of the stored parameters: the body of the call, and the VMs' names in the order of the slots."""


def plan(
    spec: LaunchSpec, account: GcpAccount, machine: Machine, batch_id: str, token: str, slots: Sequence[Slot]
) -> Params:
    """As `launch.plan`, for one to all of the slots.

    The firewall rules carry the owner of the first slot. They are removed when this attempt is over and no VM uses them.
    """
    owned = replace(slot_tokens.shared(spec), token=token, owner=slots[0].owner)
    single = launch.plan(owned, account, machine)
    names = [launch_name(slot.token) for slot in slots]
    labels = resource_tags.of_batch(spec, account, batch_id)
    return {
        ZONE: spec.zone,
        NAMES: names,
        BULK: {
            "count": str(len(slots)),
            "minCount": "1",
            "perInstanceProperties": {name: {} for name in names},
            "instanceProperties": _properties(single[launch.INSTANCE], labels, names),
        },
        RULES: firewall.plan(
            owned, account, launch_name(token), launch.network_of(account), {tags.BATCH: labels[tags.BATCH]}
        ),
        **{key: single[key] for key in (groups.PART, groups.SEPARATION) if key in single},
    }


def _properties(instance: Mapping[str, Any], labels: Mapping[str, str], names: Sequence[str]) -> dict[str, Any]:
    """What the VMs share. Types are names, not links, and Google names each VM's disks after the VM."""
    metadata = [
        *instance["metadata"]["items"],
        {"key": resource_tags.SLOTS, "value": resource_tags.slots_metadata(names)},
    ]
    properties: dict[str, Any] = {
        **instance,
        "machineType": last(instance["machineType"]),
        "labels": dict(labels),
        "disks": [_disk(disk, labels) for disk in instance["disks"]],
        "metadata": {"items": metadata},
    }
    del properties["name"]
    if "resourcePolicies" in properties:
        properties["resourcePolicies"] = [last(policy) for policy in properties["resourcePolicies"]]
    for accelerator in properties.get("guestAccelerators", ()):
        accelerator["acceleratorType"] = last(accelerator["acceleratorType"])
    return properties


def _disk(disk: Mapping[str, Any], labels: Mapping[str, str]) -> dict[str, Any]:
    made = {key: value for key, value in disk["initializeParams"].items() if key != "diskName"}
    return {**disk, "initializeParams": {**made, "diskType": last(made["diskType"]), "labels": dict(labels)}}


def create(clients: GcpClients, region: str, params: Params, shared: groups.GcpGroupResources) -> BatchLaunched:
    """Creates what VMs share, and the firewall rules, then calls instances.bulkInsert. Raises ProviderError.

    Google names the VMs in operations of their own. A slot without one has an unknown outcome, unless the whole call has
    failed. Raises the refusal of a call that has created no VM: that of an insert, or else that of the call.
    """
    body, rules = _body(params), {launch.request_id(rule): rule for rule in params[RULES]}
    with shared.ensure(clients, region, params), firewall.ensure_firewall(clients, params[ZONE], rules):
        with create_call(), creating():
            parent = clients.ask(
                clients.of(InstancesClient).bulk_insert_unary,
                zone=params[ZONE],
                bulk_insert_instance_resource_resource=body,
                request_id=launch.request_id(params),
            )
        inserts = _inserts(clients, params[ZONE], parent)
        launched = outcome(params, region, parent, inserts, _left_behind(clients, region, params, parent, inserts))
        error = operations.insert_failure(parent)
        if isinstance(error, TokenConflict) and not launched.vms:
            raise error
        if len(launched.missing) == len(params[NAMES]):
            raise _cause(launched.missing.values())
    if not launched.vms and not launched.missing:
        raise OutcomeUnknown("Google has accepted the call and shows none of its VMs yet", code="NotShownYet")
    return launched


def _body(params: Params) -> BulkInsertInstanceResource:
    with fitting():
        return cast(BulkInsertInstanceResource, BulkInsertInstanceResource.from_json(json.dumps(params[BULK])))


def _inserts(clients: GcpClients, zone: str, parent: Operation) -> Mapping[str, Operation]:
    """The operations of the VMs by name. Raises OutcomeUnknown: the cloud has accepted the call."""
    if not parent.operation_group_id:
        raise OutcomeUnknown("the operation names no group", code="MalformedAnswer")
    try:
        return operations.of_group(clients, zone, parent.operation_group_id)
    except ProviderError as error:
        raise OutcomeUnknown(f"the VMs of the call are not known: {error.message}", code=error.code) from None


def _left_behind(
    clients: GcpClients, region: str, params: Params, parent: Operation, inserts: Mapping[str, Operation]
) -> Mapping[int, Vm]:
    """The VMs of the batch that Google lists, by slot, if a failed operation may have left some. Raises OutcomeUnknown."""
    if not any(operations.leaves_doubt(operation) for operation in (parent, *inserts.values())):
        return {}
    try:
        return _listed(clients, region, params)
    except ProviderError as error:
        text = f"inserts have failed, and their VMs cannot be looked up: {error.message}"
        raise OutcomeUnknown(text, code=error.code) from None


def _cause(refusals: Iterable[ProviderError]) -> ProviderError:
    """What explains a call without any VM: a quota first, because fewer VMs may fit into it."""
    causes = list(refusals)
    return next((refusal for refusal in causes if isinstance(refusal, ProviderQuotaExceeded)), causes[0])


def outcome(
    params: Params,
    region: str,
    parent: Operation,
    inserts: Mapping[str, Operation],
    left_behind: Mapping[int, Vm] | None = None,
) -> BatchLaunched:
    """The result of each slot, as the operations show it. `parent`: of the call. `inserts`: of the VMs by name, as far as they show.

    `left_behind`: VMs by slot that Google lists, read where failed operations leave doubt. A slot without operation is
    refused only when Google has finished and counts no further VM, or when the call has failed and no VM shows.
    """
    properties = params[BULK]["instanceProperties"]
    instance_type = _type_name(properties)
    vms: dict[int, Vm] = {}
    missing: dict[int, ProviderError] = {}
    conflicts: set[int] = set()
    for slot, name in enumerate(params[NAMES]):
        insert = inserts.get(name)
        refusal = operations.insert_failure(insert) if insert is not None else None
        left = (left_behind or {}).get(slot)
        if left is not None:
            vms[slot] = left
        elif isinstance(refusal, Refused):
            missing[slot] = refusal
        elif refusal is not None:
            conflicts.add(slot)
        elif insert is not None:
            vms[slot] = launch.begun(insert, {**properties, "name": name}, region, params[ZONE], instance_type)
    failure = operations.insert_failure(parent)
    if isinstance(failure, Refused) and not vms:
        unnamed = [slot for slot, name in enumerate(params[NAMES]) if name not in inserts]
        missing |= dict.fromkeys(unnamed, next(iter(missing.values()), failure))
    if _all_created(parent) == len(vms):
        short = InsufficientCapacity(
            f"Google has created {len(vms)} of {len(params[NAMES])} VMs", code="PartialBulkInsert"
        )
        others = set(range(len(params[NAMES]))) - vms.keys() - conflicts
        missing = {slot: missing.get(slot, short) for slot in sorted(others)}
    return BatchLaunched(vms=vms, missing=missing)


def _type_name(properties: Mapping[str, Any]) -> str:
    gpus = {
        accelerator["acceleratorType"]: int(accelerator["acceleratorCount"])
        for accelerator in properties.get("guestAccelerators", ())
    }
    return catalogue.load().name_of(properties["machineType"], gpus)


def _all_created(parent: Operation) -> int | None:
    """How many VMs a finished call has created, None as long as Google may create more."""
    if parent.status != operations.DONE:
        return None
    statuses = parent.instances_bulk_insert_operation_metadata.per_location_status.values()
    return sum(status.created_vm_count for status in statuses) if statuses else None


def find(clients: GcpClients, region: str, params: Params) -> dict[int, Vm]:
    """VMs by slot. Google's operations show those that no list shows, as far as they know them."""
    listed = _listed(clients, region, params)
    hidden = {name: slot for slot, name in enumerate(params[NAMES]) if slot not in listed}
    return listed | _fates(clients, region, params, _batch_of(params), hidden)


def _batch_of(params: Params) -> str:
    return str(params[BULK]["instanceProperties"]["labels"][tags.BATCH])


def _listed(clients: GcpClients, region: str, params: Params) -> dict[int, Vm]:
    """The VMs of the batch that Google lists, by slot."""
    slots = {name: slot for slot, name in enumerate(params[NAMES])}
    label = resource_tags.having(tags.BATCH, _batch_of(params))
    pages = clients.pages(clients.of(InstancesClient).list, zone=params[ZONE], filter=label)
    return {slots[vm.name]: from_instance(vm, region) for page in pages for vm in page.items if vm.name in slots}


def _fates(clients: GcpClients, region: str, params: Params, batch: str, hidden: Mapping[str, int]) -> dict[int, Vm]:
    zone = params[ZONE]
    parent = operations.of_request(clients, zone, launch.request_id(params)) if hidden else None
    if parent is None:
        return {}
    inserts = operations.of_group(clients, zone, parent.operation_group_id)
    ids = [
        Id(zone, name, str(insert.target_id)) for name, insert in inserts.items() if name in hidden and insert.target_id
    ]
    histories, failed = operations.of_vms(clients, ids)
    for error in failed.values():
        raise error
    fates = {key: instances.settled(clients, region, key, history) for key, history in histories.items()}
    return {
        hidden[key.name]: replace(vm, launch_identity=key.name, batch=(batch, hidden[key.name]))
        for key, vm in fates.items()
        if vm is not None
    }


def label(clients: GcpClients, region: str, owners: Mapping[str, OwnerTags], names: Mapping[str, str]) -> BatchResult:
    """Labels each VM and its disks."""
    labels = {vm_id: resource_tags.of_slot(owner, names.get(vm_id)) for vm_id, owner in owners.items()}
    return deadlines.write(clients, region, labels)
