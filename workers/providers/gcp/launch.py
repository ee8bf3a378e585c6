"""Launches a VM: the parameters of instances.insert and of the firewall rules before it, and the calls."""

import json
import uuid
from collections.abc import Mapping
from datetime import timedelta
from typing import Any, cast

from app.domain.leases import VmState
from app.domain.offerings import Market
from app.domain.tokens import launch_name
from app.settings.reservations import ReservationSettings
from workers.providers.errors import OutcomeUnknown, ProviderError
from workers.providers.gcp import disks, firewall, groups, instances, nics, operations, resource_tags, userdata
from workers.providers.gcp.catalogue import Machine
from workers.providers.gcp.clients import GcpClients
from workers.providers.gcp.errors import creating, fitting
from workers.providers.gcp.ids import Id
from workers.providers.gcp.reservations import launch_members, reserved_scheduling
from workers.providers.gcp.sdk import Instance, InstancesClient, Operation
from workers.providers.gcp.settings import GcpAccount
from workers.providers.gcp.vms import FLEX_START_MODEL, described, market_of, time_of, type_name
from workers.providers.send_window import create_call
from workers.providers.types import LaunchSpec, Params, Vm

INSTANCE, RULES, ZONE = "instance", "firewalls", "zone"
"""Parts of the stored parameters."""

SHORTEST_RUN, LONGEST_RUN = 30, int(timedelta(days=120).total_seconds())
"""What maxRunDuration takes (Compute Engine guide, "Limit the run time of a VM")."""

_REQUESTS = uuid.UUID("8f1d6e0c-4b7a-5c53-9a0e-2f64d1b3c7aa")


def plan(spec: LaunchSpec, account: GcpAccount, machine: Machine) -> Params:
    """Exactly one VM, JSON-able, the same for the same arguments.

    Without a service account of the account, the VM holds no rights in the project. Raises NotOffered for a group whose
    requirements the type or the account does not meet.
    """
    name = launch_name(spec.token)
    reserved = spec.market is Market.RESERVED
    reservation = account.reservation(spec.reservation or "") if reserved else None
    network = network_of(account)
    labels = resource_tags.of(spec, account)
    group, policies = groups.shared_name(spec), groups.policies(spec, account, machine)
    gpu_networks = nics.gpu_networks(spec, account, machine)
    instance = {
        "name": name,
        "description": described(spec.token),
        "machineType": f"zones/{spec.zone}/machineTypes/{machine.machine_type}",
        "labels": labels,
        "tags": {"items": [name, firewall.VM_TAG, *([group] if group is not None else [])]},
        "disks": disks.plan(spec, account, vm_name=name, boot_disk=machine.boot_disk, labels=labels),
        "networkInterfaces": nics.plan(spec, account, machine, network),
        "metadata": {"items": userdata.items(spec)},
        "scheduling": _scheduling(spec, reservation),
        **_identity(account),
        **(launch_members(spec, reservation) if reserved else {}),
        **policies,
    }
    if machine.accelerator is not None:
        accelerator = f"zones/{spec.zone}/acceleratorTypes/{machine.accelerator}"
        instance["guestAccelerators"] = [{"acceleratorType": accelerator, "acceleratorCount": machine.gpus}]
    return {
        ZONE: spec.zone,
        INSTANCE: instance,
        RULES: firewall.plan(spec, account, name, network),
        **groups.plan(spec, account, [network, *gpu_networks], compact=bool(policies)),
    }


def network_of(account: GcpAccount) -> str:
    """The network of the account's VMs and of their firewall rules."""
    return f"projects/{account.network_project}/global/networks/{account.network}"


def _identity(account: GcpAccount) -> dict[str, Any]:
    """The service account, and the measured boot of a shielded VM."""
    email, scopes = account.service_account, list(account.service_account_scopes)
    identity: dict[str, Any] = {"serviceAccounts": [] if email is None else [{"email": email, "scopes": scopes}]}
    if account.shielded_vm:
        identity["shieldedInstanceConfig"] = {
            "enableSecureBoot": account.secure_boot,
            "enableVtpm": True,
            "enableIntegrityMonitoring": True,
        }
    return identity


def _scheduling(spec: LaunchSpec, reservation: ReservationSettings | None) -> dict[str, Any]:
    """A VM with GPUs cannot be moved to another host. maxRunDuration is Google's own dead-man switch.

    It cannot be renewed: Google takes instances.setScheduling for a stopped VM alone.
    """
    spot = spec.market is Market.SPOT
    scheduling: dict[str, Any] = {"onHostMaintenance": "TERMINATE", "automaticRestart": False}
    reserved = reserved_scheduling(spec, reservation)
    if reserved:
        return scheduling | reserved
    if spot:
        scheduling["provisioningModel"] = "SPOT"
    if spec.max_seconds is not None:
        scheduling["maxRunDuration"] = {"seconds": str(min(max(spec.max_seconds, SHORTEST_RUN), LONGEST_RUN))}
    if spot or spec.max_seconds is not None:
        scheduling["instanceTerminationAction"] = "DELETE"
    return scheduling


def request_id(part: Mapping[str, Any]) -> str:
    """The same for the same parameters: a repeat is known to Google, another VM under the same name is a conflict."""
    return str(uuid.uuid5(_REQUESTS, json.dumps(part, sort_keys=True)))


def body(params: Params) -> Instance:
    """The instance of stored parameters. Raises InvalidSpec for what Google's API does not know."""
    with fitting():
        return cast(Instance, Instance.from_json(json.dumps(params[INSTANCE])))


def metadata_of(instance: Mapping[str, Any], key: str) -> str | None:
    """A value of the metadata of the VM that `instance` makes."""
    return next((str(item["value"]) for item in instance["metadata"]["items"] if item["key"] == key), None)


def vm_tags(instance: Mapping[str, Any]) -> dict[str, str]:
    """The tags of the VM that `instance` makes, as a list shows them."""
    return resource_tags.of_vm(instance["labels"], metadata_of(instance, resource_tags.METADATA))


def begun(operation: Operation, instance: Mapping[str, Any], region: str, zone: str, instance_type: str) -> Vm:
    """The VM that an insert has begun to make, with the number that it will have."""
    if not operation.target_id:
        raise OutcomeUnknown("the operation names no VM", code="MalformedAnswer")
    model = instance["scheduling"].get("provisioningModel")
    labels, slots = instance["labels"], metadata_of(instance, resource_tags.SLOTS)
    return Vm(
        id=str(Id(zone, instance["name"], str(operation.target_id))),
        region=region,
        zone=zone,
        instance_type=instance_type,
        market=market_of(model, instance.get("reservationAffinity", {}).get("consumeReservationType")),
        state=VmState.QUEUED if model == FLEX_START_MODEL else VmState.PENDING,
        tags=vm_tags(instance),
        launch_identity=instance["name"],
        batch=resource_tags.batch_of(labels, slots, instance["name"]),
        launched_at=time_of(operation.insert_time),
    )


def create(clients: GcpClients, region: str, params: Params, shared: groups.GcpGroupResources) -> Vm:
    """Creates what VMs share, then the firewall rules, then calls instances.insert.

    Raises ProviderError. A failed operation that may have left its VM is a refusal only when Google shows no VM.
    """
    instance, zone = body(params), params[ZONE]
    rules = {request_id(rule): rule for rule in params[RULES]}
    with shared.ensure(clients, region, params), firewall.ensure_firewall(clients, zone, rules):
        with create_call(), creating():
            operation = clients.ask(
                clients.of(InstancesClient).insert_unary,
                zone=zone,
                instance_resource=instance,
                request_id=request_id(params),
            )
        failure = operations.insert_failure(operation)
        if failure is not None:
            left = _left_behind(clients, region, zone, params[INSTANCE]["name"], operation)
            if left is None:
                raise failure
            return left
    return begun(operation, params[INSTANCE], region, zone, type_name(instance))


def _left_behind(clients: GcpClients, region: str, zone: str, name: str, operation: Operation) -> Vm | None:
    """The VM of a failed insert, if its error leaves doubt and Google shows one. Raises OutcomeUnknown."""
    if not operations.leaves_doubt(operation):
        return None
    try:
        return instances.directly(clients, region, zone, name)
    except ProviderError as error:
        text = f"the insert has failed, and its VM cannot be looked up: {error.message}"
        raise OutcomeUnknown(text, code=error.code) from None
