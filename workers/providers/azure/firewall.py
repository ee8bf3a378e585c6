"""Network security groups that gpulease makes, and the one per attempt that names allowed networks.

The group of an attempt limits which networks reach the SSH port of the VM. `groups` makes those that several VMs share.

The adapter creates the group before the VM, under the VM's name, from parameters stored with the VM's. A repeat finds
the group by name and tags. The group costs nothing. Azure deletes a group only after its network interface is gone, so
gpulease removes the group as a leftover resource.
"""

from collections.abc import Iterator, Mapping
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
_MEMBERS = "group-members"
"""The rule that lets in the members of a group."""

_EVERYWHERE = frozenset({"*", "Any", "0.0.0.0/0", "VirtualNetwork"})
"""Addresses of rules that concern all VMs of a virtual network."""
_KEYS = (tags.INSTALLATION, tags.LEASE, tags.ATTEMPT)
_NOT_READY_SECONDS = 1.0


def plan(spec: LaunchSpec, vm: str, labels: dict[str, str], members: str | None = None) -> Params:
    """{"firewall": …} when the spec names networks, else nothing.

    `members`: id of the application security group whose VMs may reach all ports.
    """
    if not spec.allowed_cidrs:
        return {}
    return {PART: {"name": names.security_group(vm), "body": body(spec, labels, members)}}


def body(spec: LaunchSpec, labels: dict[str, str], members: str | None) -> Params:
    """The body of a group that lets in the networks of the spec, the `members` as in `plan`, and nothing else."""
    rules = _rules(spec.allowed_cidrs, spec.ssh_port, members)
    return {"location": spec.region, "tags": labels, "properties": {"securityRules": rules}}


def is_closed(security_group: Document) -> bool:
    """Whether a group that several VMs share still lets in the members of their group, and nothing else."""
    rules = part(security_group, "properties").get("securityRules") or ()
    inbound = [(rule["name"], rule["properties"]) for rule in rules if rule["properties"]["direction"] == "Inbound"]
    admitted = {name for name, rule in inbound if rule["access"] == "Allow"}
    return admitted <= {_MEMBERS} and any(_denies_all(rule) for _, rule in inbound)


def connects_vms(security_group: Document, ssh_port: int) -> bool:
    """Whether a group lets VMs of one virtual network reach more of each other than the SSH port.

    Rules apply in the order of their priority, and Azure's own last rules let the virtual network in (Azure docs,
    "Network security groups overview"). Rules about addresses and application security groups are not looked at.
    """
    rules = [rule["properties"] for rule in part(security_group, "properties").get("securityRules") or ()]
    for rule in sorted(rules, key=lambda rule: int(rule["priority"])):
        if rule["direction"] != "Inbound" or not _concerns_vms(rule):
            continue
        if _denies_all(rule):
            return False
        if rule["access"] == "Allow" and _values(rule, "destinationPortRange") != {str(ssh_port)}:
            return True
    return True


def _denies_all(rule: Mapping[str, Any]) -> bool:
    is_everything = rule["protocol"] == "*" and _values(rule, "destinationPortRange") & {"*", "0-65535"}
    is_everywhere = _values(rule, "destinationAddressPrefix") & _EVERYWHERE
    return rule["access"] == "Deny" and _concerns_vms(rule) and bool(is_everything and is_everywhere)


def _concerns_vms(rule: Mapping[str, Any]) -> bool:
    return bool(_values(rule, "sourceAddressPrefix") & _EVERYWHERE)


def _values(rule: Mapping[str, Any], member: str) -> set[str]:
    """A rule has one value of a kind, or a list of them."""
    return {value for value in (rule.get(member), *(rule.get(f"{member}es") or rule.get(f"{member}s") or ())) if value}


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
        rules.append(_rule(_MEMBERS, 110, "Allow", "*", "*", source))
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
def ensure_firewall(network: NetworkManagementClient, group: str, parameters: Params | None) -> Iterator[None]:
    """Creates the attempt's security group in the resource group `group` before the block launches the VM.

    `parameters`: the stored ones of the security group; None for no group. If Azure refuses the block, the security
    group is deleted, so that a refusal leaves nothing behind. Raises ProviderError.
    """
    if parameters is None:
        yield
        return
    try:
        _ensure(network, group, parameters)
        yield
    except Refused:
        with suppress(ProviderError):
            remove(network, group, parameters["name"])
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


def _ensure(network: NetworkManagementClient, group: str, parameters: Params) -> None:
    """Creates the group, or only reads it if it exists.

    A second PUT would change the group of a VM that may be running.
    """
    security_group = known(network.network_security_groups.get, group, parameters["name"])
    if security_group is None:
        security_group = _made(network, group, parameters)
    elif not _is_ours(security_group, parameters):
        raise OutcomeUnknown(f"group {parameters['name']} exists and is not ours", code="ForeignSecurityGroup")
    state = part(security_group, "properties", "provisioningState")
    if state == "Failed":
        raise Refused(
            f"Azure could not make the network security group {parameters['name']}", code="SecurityGroupFailed"
        )
    if state != "Succeeded":
        message = f"the network security group {parameters['name']} is not ready yet"
        raise NotReady(message, code="SecurityGroupNotReady", retry_after=_NOT_READY_SECONDS)


def _made(network: NetworkManagementClient, group: str, parameters: Params) -> Document:
    try:
        with translated():
            poller = network.network_security_groups.begin_create_or_update(
                group, parameters["name"], parameters["body"], polling=False
            )
            made: Document = poller.result()
    except NotFound as error:
        raise InvalidSpec(error.message, code=error.code) from None
    return made


def _is_ours(security_group: Document, parameters: Params) -> bool:
    theirs, ours = resource_tags.read(security_group.get("tags")), parameters["body"]["tags"]
    return all(theirs.get(key) == ours[key] for key in _KEYS)
