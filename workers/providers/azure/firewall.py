"""One network security group per attempt that names allowed networks: it limits which networks reach the SSH port of the VM.

The adapter creates the group before the VM, under the VM's name, from parameters stored with the VM's. A repeat finds
the group by name and tags. The group costs nothing. Azure deletes a group only after its network interface is gone, so
gpulease removes the group as a leftover resource.
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
from workers.providers.errors import InvalidSpec, NotFound, NotReady, OutcomeUnknown, ProviderError, Refused
from workers.providers.types import LaunchSpec, Params

PART = "firewall"
"""Key of the name and body of the group in the stored parameters."""

_KEYS = (tags.INSTALLATION, tags.LEASE, tags.ATTEMPT)
_NOT_READY_SECONDS = 1.0


def plan(spec: LaunchSpec, vm: str, labels: dict[str, str], members: str | None = None) -> Params:
    """{"firewall": …} when the spec names networks, else nothing.

    `members`: id of the application security group whose VMs may reach all ports.
    """
    if not spec.allowed_cidrs:
        return {}
    body = {
        "location": spec.region,
        "tags": labels,
        "properties": {"securityRules": _rules(spec.allowed_cidrs, spec.ssh_port, members)},
    }
    return {PART: {"name": names.security_group(vm), "body": body}}


def _rules(cidrs: tuple[str, ...], port: int, members: str | None) -> list[dict[str, Any]]:
    """One rule per IP version, and one for the members of the group. The last rule denies the traffic that Azure's default rules allow from the VNet."""
    networks = list(dict.fromkeys(map(ip_network, cidrs)))
    allowed = {version: [str(network) for network in networks if network.version == version] for version in (4, 6)}
    rules = [
        _rule(f"ssh-ipv{version}", 100 + version, "Allow", "Tcp", str(port), {"sourceAddressPrefixes": prefixes})
        for version, prefixes in allowed.items()
        if prefixes
    ]
    if members is not None:
        source = {"sourceApplicationSecurityGroups": [{"id": members}]}
        rules.append(_rule("group-members", 110, "Allow", "*", "*", source))
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
    """Creates the attempt's security group in the resource group `group` before the block launches the VM.

    `wanted`: the stored parameters of the security group; None for no group. If Azure refuses the block, the security
    group is deleted, so that a refusal leaves nothing behind. Raises ProviderError.
    """
    if wanted is None:
        yield
        return
    try:
        _ensure(network, group, wanted)
        yield
    except Refused:
        with suppress(ProviderError):
            remove(network, group, wanted["name"])
        raise


def remove(network: NetworkManagementClient, group: str, name: str) -> None:
    """Requests deletion of a group; a missing group is success.

    Raises OutcomeUnknown while a network interface uses the group.
    """
    try:
        with translated():
            network.network_security_groups.begin_delete(group, name, polling=False)
    except NotFound:
        return


def _ensure(network: NetworkManagementClient, group: str, wanted: Params) -> None:
    """Creates the group, or only reads it if it exists.

    A second PUT would change the group of a VM that may be running.
    """
    security_group = known(network.network_security_groups.get, group, wanted["name"])
    if security_group is None:
        security_group = _made(network, group, wanted)
    elif not _is_ours(security_group, wanted):
        raise OutcomeUnknown(f"group {wanted['name']} exists and is not ours", code="ForeignSecurityGroup")
    state = part(security_group, "properties", "provisioningState")
    if state == "Failed":
        raise Refused(f"Azure could not make the network security group {wanted['name']}", code="SecurityGroupFailed")
    if state != "Succeeded":
        message = f"the network security group {wanted['name']} is not ready yet"
        raise NotReady(message, code="SecurityGroupNotReady", retry_after=_NOT_READY_SECONDS)


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
