"""Checks of the subnetwork that VMs of a region use: it exists, takes VMs, and has free addresses.

The SDK's services for networks are not loaded for this. The calls are plain REST with the adapter's own session.
Source of the fields: Compute Engine API reference, `networks.get` and `subnetworks.get`.
"""

from collections.abc import Iterator, Mapping
from typing import Any

from app.domain.account_checks import AccountCheck, CheckSubject
from workers.providers.common.checks import failed, not_checked, passed, refused
from workers.providers.errors import CredentialsRejected, NotFound, ProviderError
from workers.providers.gcp.clients import GcpClients
from workers.providers.gcp.ids import last
from workers.providers.gcp.rights import GET_NETWORK, GET_SUBNETWORK, SUBNETWORK_RIGHTS
from workers.providers.gcp.settings import GcpAccount

_FOR_VMS = frozenset({"", "PRIVATE", "PRIVATE_RFC_1918"})
"""Purposes of subnetworks that take VMs."""
_READY = frozenset({"", "READY"})


def check_gpu_networks(clients: GcpClients, account: GcpAccount, region: str) -> Iterator[AccountCheck]:
    """The subnetworks of the further interfaces of groups: each exists, takes VMs, and is in the network that is named."""
    zones = (zone for zone in account.rdma_subnetworks if zone.rpartition("-")[0] == region)
    named = [
        (network_and_subnet.partition("/")[2], network_and_subnet.partition("/")[0])
        for network_and_subnet in account.gpu_networks.get(region, ())
    ]
    named += [(subnetwork_name, "") for zone in zones for subnetwork_name in account.rdma_subnetworks[zone]]
    for name, network in named:
        path = f"projects/{account.network_project}/regions/{region}/subnetworks/{name}"
        fix = "correct `gpu_networks` or `rdma_subnetworks` of this account"
        try:
            subnetwork = clients.compute("GET", path, query={"views": "WITH_UTILIZATION"})
        except ProviderError as error:
            yield _unread(path, error, GET_SUBNETWORK, fix)
            continue
        network_name = last(str(subnetwork.get("network", "")))
        if network and network_name != network:
            yield failed(CheckSubject.SUBNET, name, f"it is in the network {network_name}, not in {network}", fix)
            continue
        yield _check(name, subnetwork)


def check_subnetwork(clients: GcpClients, account: GcpAccount, region: str) -> Iterator[AccountCheck]:
    """The account's subnetwork of the region, or the network's own one."""
    try:
        path = _path(clients, account, region)
    except ProviderError as error:
        yield _unread(account.network, error, GET_NETWORK, "correct `network` of this account")
        return
    if path is None:
        fix = f"create a subnetwork of {account.network} in {region}, or name one in `subnetworks`"
        yield failed(CheckSubject.SUBNET, account.network, f"the network has no subnetwork in {region}", fix)
        return
    try:
        subnetwork = clients.compute("GET", path, query={"views": "WITH_UTILIZATION"})
    except ProviderError as error:
        yield _unread(path, error, GET_SUBNETWORK, "correct `subnetworks` of this account")
        return
    yield _check(last(path), subnetwork)
    if not path.startswith(f"projects/{account.project}/"):
        yield from _check_shared(clients, path)


def _path(clients: GcpClients, account: GcpAccount, region: str) -> str | None:
    """`projects/P/regions/R/subnetworks/NAME`; None when the network has none in the region. Raises ProviderError."""
    named = account.subnetworks.get(region)
    if named is not None:
        return named if "/" in named else f"projects/{account.project}/regions/{region}/subnetworks/{named}"
    network = clients.compute("GET", f"projects/{account.project}/global/networks/{account.network}")
    links = (str(link) for link in network.get("subnetworks") or ())
    own = next((link for link in links if f"/regions/{region}/" in link), None)
    return None if own is None else f"projects/{own.partition('/projects/')[2]}"


def _unread(name: str, error: ProviderError, right: str, fix: str) -> AccountCheck:
    if isinstance(error, CredentialsRejected):
        return not_checked(CheckSubject.SUBNET, name, f"{right} is missing", f"grant {right}, then check again")
    if isinstance(error, NotFound):
        return failed(CheckSubject.SUBNET, name, "it does not exist", fix)
    return refused(CheckSubject.SUBNET, name, error, fix)


def _check(name: str, subnetwork: Mapping[str, Any]) -> AccountCheck:
    purpose, state = subnetwork.get("purpose", ""), subnetwork.get("state", "")
    if purpose not in _FOR_VMS or state not in _READY:
        fix = "name another subnetwork of this region in `subnetworks`"
        return failed(CheckSubject.SUBNET, name, f"it takes no VMs: purpose {purpose}, state {state}", fix)
    free = _free_addresses(subnetwork)
    if free == 0:
        fix = "expand the range of the subnetwork, or name another one in `subnetworks`"
        return failed(CheckSubject.SUBNET, name, "no free address", fix)
    detail = str(subnetwork.get("ipCidrRange", ""))
    return passed(CheckSubject.SUBNET, name, detail if free is None else f"{detail}: {free} free addresses")


def _free_addresses(subnetwork: Mapping[str, Any]) -> int | None:
    """Of the primary range, which has no name. None: Google reports no use."""
    ranges = (subnetwork.get("utilizationDetails") or {}).get("ipv4Utilizations") or ()
    primary = [address_range for address_range in ranges if not address_range.get("rangeName")]
    return int(primary[0]["totalFreeIp"]) if primary and "totalFreeIp" in primary[0] else None


def _check_shared(clients: GcpClients, path: str) -> Iterator[AccountCheck]:
    """The rights on a subnetwork of another project."""
    host = path.split("/")[1]
    try:
        answer = clients.compute("POST", f"{path}/testIamPermissions", body={"permissions": list(SUBNETWORK_RIGHTS)})
    except ProviderError as error:
        yield refused(CheckSubject.RIGHT, f"{last(path)} in {host}", error, f"check `subnetworks` and the host {host}")
        return
    granted = set(answer.get("permissions") or ())
    for right in SUBNETWORK_RIGHTS:
        name = f"{right} on {last(path)} of {host}"
        if right in granted:
            yield passed(CheckSubject.RIGHT, name)
        else:
            fix = f"grant roles/compute.networkUser on {path} to the identity of this account"
            yield failed(CheckSubject.RIGHT, name, "missing", fix)
