"""The checks of a region's subnet and network security group.

The subnet exists in the region, is ready, and has free addresses. The group lets no VM into another one. Source of the
fields: Network REST reference, "Virtual Networks - Get" and "Network Security Groups - Get".
"""

import ipaddress
import re
from collections.abc import Mapping
from typing import Any

from app.domain.account_checks import AccountCheck, CheckSubject
from workers.providers.azure import firewall, listings, names
from workers.providers.azure.calls import part
from workers.providers.azure.clients import Group
from workers.providers.azure.rights import READ_NETWORK, READ_SECURITY_GROUP
from workers.providers.common.checks import failed, not_checked, passed, refused
from workers.providers.errors import CredentialsRejected, NotFound, ProviderError

_ID = re.compile(
    r"/subscriptions/(?P<subscription>[^/]+)/resourceGroups/(?P<group>[^/]+)/providers/Microsoft\.Network"
    r"/virtualNetworks/(?P<network>[^/]+)/subnets/(?P<subnet>[^/]+)",
    re.IGNORECASE,
)
_RESERVED = 5
"""Addresses of each subnet that Azure keeps (Azure docs, "Virtual network FAQ")."""
_READY = "Succeeded"
_CORRECT = "correct `subnet_ids` of this account"
_CORRECT_GROUP = "correct `network_security_group_ids` of this account"


def check_subnet(group: Group, subnet_id: str, region: str) -> AccountCheck:
    """The subnet that VMs of the region use."""
    match = _ID.fullmatch(subnet_id)
    if match is None:
        return failed(CheckSubject.SUBNET, subnet_id, "it is not the id of a subnet", _CORRECT)
    name = f"{match['network']}/{match['subnet']}"
    try:
        network = listings.resource(group, subnet_id[: subnet_id.lower().rindex("/subnets/")], listings.NETWORK)
        part(network, "location")
    except ProviderError as error:
        return _unread(name, error)
    return _check_in(network, name, match["subnet"], region)


def check_security_group(group: Group, group_id: str, region: str, ssh_port: int) -> AccountCheck:
    """The network security group that the account names for VMs of the region."""
    name = names.last(group_id)
    try:
        security_group = listings.resource(group, group_id, listings.NETWORK)
        location = part(security_group, "location")
    except NotFound:
        return failed(CheckSubject.FIREWALL, name, "the network security group does not exist", _CORRECT_GROUP)
    except ProviderError as error:
        return refused(CheckSubject.FIREWALL, name, error, f"grant {READ_SECURITY_GROUP} on the group")
    if location != region:
        return failed(CheckSubject.FIREWALL, name, f"it lies in {location}, not in {region}", _CORRECT_GROUP)
    if firewall.connects_vms(security_group, ssh_port):
        fix = "add an inbound rule that denies all traffic from VirtualNetwork; groups of VMs do not use this group"
        return failed(CheckSubject.FIREWALL, name, "it lets the VMs of all tenants reach each other", fix)
    return passed(CheckSubject.FIREWALL, name, location)


def _unread(name: str, error: ProviderError) -> AccountCheck:
    if isinstance(error, CredentialsRejected):
        fix = f"grant {READ_NETWORK}, then check again"
        return not_checked(CheckSubject.SUBNET, name, f"{READ_NETWORK} is missing", fix)
    if isinstance(error, NotFound):
        return failed(CheckSubject.SUBNET, name, "the virtual network does not exist", _CORRECT)
    return refused(CheckSubject.SUBNET, name, error, _CORRECT)


def _check_in(network: Mapping[str, Any], name: str, subnet: str, region: str) -> AccountCheck:
    """The subnet `subnet` of a virtual network."""
    if network["location"] != region:
        return failed(CheckSubject.SUBNET, name, f"it lies in {network['location']}, not in {region}", _CORRECT)
    subnets = (network.get("properties") or {}).get("subnets") or ()
    by_name = {str(entry.get("name", "")).lower(): entry for entry in subnets}
    if subnet.lower() not in by_name:
        return failed(CheckSubject.SUBNET, name, "the virtual network has no such subnet", _CORRECT)
    return _check(name, by_name[subnet.lower()].get("properties") or {})


def _check(name: str, properties: Mapping[str, Any]) -> AccountCheck:
    state = properties.get("provisioningState", _READY)
    if state != _READY:
        fix = "repair the subnet in the Azure portal, or name another one in `subnet_ids`"
        return failed(CheckSubject.SUBNET, name, f"its provisioning state is {state}", fix)
    free = free_addresses(properties)
    if free <= 0:
        fix = "free addresses in the subnet, or name a larger one in `subnet_ids`"
        return failed(CheckSubject.SUBNET, name, "no free address", fix)
    return passed(CheckSubject.SUBNET, name, f"{free} free addresses")


def free_addresses(properties: Mapping[str, Any]) -> int:
    """IPv4 addresses of the subnet without those that Azure keeps and those in use."""
    prefixes = properties.get("addressPrefixes") or [properties.get("addressPrefix")]
    networks = [ipaddress.ip_network(prefix) for prefix in prefixes if prefix]
    room = sum(network.num_addresses - _RESERVED for network in networks if network.version == 4)
    return room - len(properties.get("ipConfigurations") or ())
