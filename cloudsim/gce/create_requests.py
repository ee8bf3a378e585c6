"""From the body of instances.insert to an order for the world, checked the way Compute Engine checks it."""

from __future__ import annotations

import re
import uuid
from collections.abc import Mapping, Sequence
from typing import Any

from cloudsim.gce import existing, links, reservations, resource_policies
from cloudsim.gce.call import Call
from cloudsim.gce.catalog import HYPERDISK_ONLY, PROVIDER, family, with_accelerators
from cloudsim.gce.disk_requests import read_disks
from cloudsim.gce.errors import GceError, invalid
from cloudsim.gce.interfaces import read_interfaces
from cloudsim.gce.labels import check as check_labels
from cloudsim.world import Market, Order

_NAME = re.compile(r"[a-z](?:[-a-z0-9]{0,61}[a-z0-9])?")
_METADATA_BYTES = 256 * 1024
_LONGEST_RUN_SECONDS = 120 * 86_400
Body = Mapping[str, Any]


def read_order(call: Call, *, of_bulk: bool = False) -> Order:
    """The order that a call places, or one of those of a bulkInsert. Raises GceError as Google would refuse it."""
    body = call.body
    name = body.get("name", "")
    if not _NAME.fullmatch(name):
        raise invalid("resource.name", f"'{name}'. Must be a match of regex '{_NAME.pattern}'")
    machine = _machine(call, body)
    scheduling, market = _scheduling(body.get("scheduling", {}))
    reservation, longest_queue = reservations.target(call), reservations.longest_queue(body)
    if reservation is None and longest_queue is None:
        _check_sold_as(call, machine, market)
    interfaces = read_interfaces(body, call.world.machine(PROVIDER, machine))
    labels = check_labels(body.get("labels", {}))
    disks = read_disks(call, name)
    _check_hardware(machine, str(disks[0].spec["type"]))
    spec = _spec(call, scheduling, interfaces)
    return Order(
        provider=PROVIDER,
        account=call.project,
        region=call.region,
        zones=(call.zone,),
        id=str((1 << 60) | call.world.rng.getrandbits(60)),
        name=name,
        instance_type=machine,
        market=market,
        image=body["disks"][0]["initializeParams"].get("sourceImage", ""),
        tags=labels,
        token=_request_id(call),
        token_scope=f"{call.project}/{call.zone}",
        params_hash="",  # a repeat with the same request id is not compared: the first one counts
        public_ip=bool(interfaces[0].get("accessConfigs")),
        disks=disks,
        nics=(),
        spec=spec,
        reservation=reservation,
        placement_group=resource_policies.of_instance(call, machine, is_name=of_bulk),
        longest_queue=longest_queue,
    )


def _spec(call: Call, scheduling: Body, interfaces: Sequence[Body]) -> dict[str, Any]:
    """What only this front understands of the VM."""
    body, interface = call.body, interfaces[0]
    return {
        "description": body.get("description", ""),
        "tags": list(body.get("tags", {}).get("items", [])),
        "metadata": _metadata(body.get("metadata", {})),
        "scheduling": scheduling,
        "network": interface.get("network") or links.everywhere(call.project, "networks", "default"),
        "subnetwork": interface.get("subnetwork"),
        "service_accounts": _service_accounts(body),
        "shielded": _shielded(body),
        "caller": call.caller,
        "nic_type": interface.get("nicType"),
        "further_interfaces": [dict(interface) for interface in interfaces[1:]],
        "affinity": dict(body.get("reservationAffinity", {})),
    }


def _request_id(call: Call) -> str | None:
    request_id = call.query.get("requestId")
    if request_id is None:
        return None
    try:
        return str(uuid.UUID(request_id))
    except ValueError:
        raise invalid("requestId", f"'{request_id}' is not a UUID.") from None


def _machine(call: Call, body: Body) -> str:
    """The world's machine: the type's name, or an N1 type with its accelerators."""
    link = body.get("machineType", "")
    name = links.last(link)
    for requested in body.get("guestAccelerators", []):
        kind, count = links.last(requested["acceleratorType"]), requested["acceleratorCount"]
        attached = with_accelerators(name, kind, count)
        if attached is None or (call.zone, attached) not in call.world.offered[PROVIDER]:
            raise invalid("resource.guestAccelerators", f"'{kind}' ({count}) cannot be added to '{name}' in this zone.")
        return attached
    if (call.zone, name) not in call.world.offered[PROVIDER]:
        raise invalid(
            "resource.machineType",
            f"'{link}'. Machine type with name '{name}' does not exist in zone '{call.zone}'.",
        )
    return name


def _check_sold_as(call: Call, machine: str, market: Market) -> None:
    if market not in call.world.machine(PROVIDER, machine).sold_as:
        raise invalid("resource.scheduling.provisioningModel", f"'{machine}' is not available with this model.")


def _check_hardware(machine: str, disk_type: str) -> None:
    """Disk types that go with the machine."""
    if family(machine) in HYPERDISK_ONLY and not disk_type.startswith("hyperdisk-"):
        raise invalid(
            "resource.disks[0].initializeParams.diskType",
            f"'{disk_type}'. It cannot be used by the machine type '{machine}'.",
        )


def _scheduling(body: Body) -> tuple[dict[str, Any], Market]:
    """As it is kept, and the market that it means."""
    if body.get("onHostMaintenance") != "TERMINATE":
        raise invalid(
            "scheduling.onHostMaintenance", "Instances with guest accelerators do not support live migration."
        )
    model = body.get("provisioningModel", "STANDARD")
    spot = model == "SPOT"
    if spot and body.get("automaticRestart", True):
        raise invalid("scheduling.automaticRestart", "Scheduling must have automatic restart be false for spot.")
    limit = int(body.get("maxRunDuration", {}).get("seconds", _LONGEST_RUN_SECONDS))
    if not 30 <= limit <= _LONGEST_RUN_SECONDS:
        raise invalid("scheduling.maxRunDuration", "It must be between 30 seconds and 120 days.")
    if "maxRunDuration" in body and "instanceTerminationAction" not in body:
        raise invalid("scheduling.instanceTerminationAction", "It must be given together with maxRunDuration.")
    return {**body, "provisioningModel": model, "preemptible": spot}, Market.SPOT if spot else Market.ON_DEMAND


def _metadata(body: Body) -> dict[str, str]:
    values: dict[str, str] = {}
    for item in body.get("items", []):
        if len(item.get("value", "").encode()) > _METADATA_BYTES:
            raise invalid("resource.metadata", f"The value of '{item['key']}' is too long: at most 262144 bytes.")
        values[item["key"]] = item.get("value", "")
    return values


def _service_accounts(body: Body) -> list[dict[str, Any]]:
    """One at most. Google answers as for a right that is missing where an account does not exist."""
    accounts: list[dict[str, Any]] = body.get("serviceAccounts", [])
    for account in accounts:
        if account.get("email") not in existing.SERVICE_ACCOUNTS:
            raise GceError("badRequest", f"The user does not have access to service account '{account.get('email')}'.")
        if not account.get("scopes"):
            raise invalid("resource.serviceAccounts[0].scopes", "At least one scope must be specified.")
    return accounts


def _shielded(body: Body) -> dict[str, bool] | None:
    config: dict[str, bool] | None = body.get("shieldedInstanceConfig")
    if config and config.get("enableIntegrityMonitoring") and not config.get("enableVtpm"):
        raise invalid("resource.shieldedInstanceConfig", "Integrity monitoring needs a virtual TPM.")
    return config
