"""One network security group per attempt that asks for it: which networks may reach port 22 of its VM.

The group is made before the VM, under the VM's name, from parameters stored beside the VM's. A repeat finds the group by
name and tags. It costs nothing and cannot go before the network interface has gone: it is removed as a leftover.
"""

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from ipaddress import ip_network
from typing import Any

from azure.mgmt.network import NetworkManagementClient

from app.domain import tags
from workers.providers.azure import names, resource_tags
from workers.providers.azure.calls import Document, known, part
from workers.providers.azure.errors import translated
from workers.providers.errors import InvalidSpec, NotFound, OutcomeUnknown, ProviderError, Refused, Throttled
from workers.providers.types import LaunchSpec, Params

PART = "firewall"
"""Its place in the stored parameters: name and body of the group."""

_KEYS = (tags.INSTALLATION, tags.LEASE, tags.ATTEMPT)
_NOT_READY_SECONDS = 1.0


def plan(spec: LaunchSpec, vm: str, labels: dict[str, str]) -> Params:
    """{"firewall": …} when the spec names networks, else nothing."""
    if not spec.allowed_cidrs:
        return {}
    body = {"location": spec.region, "tags": labels, "properties": {"securityRules": _rules(spec.allowed_cidrs)}}
    return {PART: {"name": names.security_group(vm), "body": body}}


def _rules(cidrs: tuple[str, ...]) -> list[dict[str, Any]]:
    """A rule holds networks of one IP version. The last one takes back what Azure's default rules let in from the VNet."""
    networks = list(dict.fromkeys(map(ip_network, cidrs)))
    allowed = {version: [str(one) for one in networks if one.version == version] for version in (4, 6)}
    rules = [
        _rule(f"ssh-ipv{version}", 100 + version, "Allow", "Tcp", "22", {"sourceAddressPrefixes": found})
        for version, found in allowed.items()
        if found
    ]
    return [*rules, _rule("nothing-else", 4096, "Deny", "*", "*", {"sourceAddressPrefix": "*"})]


def _rule(name: str, priority: int, access: str, protocol: str, ports: str, source: dict[str, Any]) -> dict[str, Any]:
    properties = {
        "priority": priority,
        "access": access,
        "direction": "Inbound",
        "protocol": protocol,
        "sourcePortRange": "*",
        "destinationAddressPrefix": "*",
        "destinationPortRange": ports,
        **source,
    }
    return {"name": name, "properties": properties}


@contextmanager
def ensure_firewall(network: NetworkManagementClient, group: str, wanted: Params | None) -> Iterator[None]:
    """Makes the attempt's group in the resource group `group`, if one is wanted, before the block launches the VM.

    When the block is refused the group is withdrawn: a refusal leaves nothing behind. Raises ProviderError.
    """
    if wanted is None:
        yield
        return
    _ensure(network, group, wanted)
    try:
        yield
    except Refused:
        with suppress(ProviderError):
            remove(network, group, wanted["name"])
        raise


def remove(network: NetworkManagementClient, group: str, name: str) -> None:
    """Asks for the end of a group; one that is gone is success. OutcomeUnknown while an interface has it."""
    try:
        with translated():
            network.network_security_groups.begin_delete(group, name, polling=False)
    except NotFound:
        return


def _ensure(network: NetworkManagementClient, group: str, wanted: Params) -> None:
    """A second PUT would change the group of a VM that may run: one that stands is only looked at."""
    found = known(network.network_security_groups.get, group, wanted["name"])
    if found is None:
        found = _made(network, group, wanted)
    elif not _is_ours(found, wanted):
        raise OutcomeUnknown(f"group {wanted['name']} exists and is not ours", code="ForeignSecurityGroup")
    if part(found, "properties", "provisioningState") != "Succeeded":
        message = f"the network security group {wanted['name']} is not ready yet"
        raise Throttled(message, code="SecurityGroupNotReady", retry_after=_NOT_READY_SECONDS)


def _made(network: NetworkManagementClient, group: str, wanted: Params) -> Document:
    try:
        with translated():
            poller = network.network_security_groups.begin_create_or_update(
                group, wanted["name"], wanted["body"], polling=False
            )
            made: Document = poller.result()
    except NotFound as error:
        raise InvalidSpec(error.message, code=error.code) from None
    return made


def _is_ours(found: Document, wanted: Params) -> bool:
    theirs, ours = resource_tags.read(found.get("tags")), wanted["body"]["tags"]
    return all(theirs.get(key) == ours[key] for key in _KEYS)
