"""The check of a region's subnet: it exists in the region, is ready, and has free addresses.

Source of the fields: Network REST reference, "Virtual Networks - Get".
"""

import ipaddress
import re
from collections.abc import Mapping
from typing import Any

from app.domain.account_checks import AccountCheck, CheckSubject
from workers.providers.azure import listings
from workers.providers.azure.calls import part
from workers.providers.azure.clients import Group
from workers.providers.azure.rights import READ_NETWORK
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
    by_name = {str(one.get("name", "")).lower(): one for one in subnets}
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
