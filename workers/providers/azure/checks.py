"""The checks of one Azure account before its first lease: what they ask, and in which order."""

from collections.abc import Iterator, Sequence
from typing import Any

from app.domain.account_checks import AccountCheck, CheckSubject
from workers.providers.azure import listings, place_checks, quotas, registrations
from workers.providers.azure.clients import Group
from workers.providers.azure.rights import (
    JOIN_SECURITY_GROUP,
    JOIN_SUBNET,
    LIST_PERMISSIONS,
    RESERVATION_RIGHTS,
    RIGHTS,
    is_granted,
)
from workers.providers.azure.settings import AzureAccount
from workers.providers.common.checks import attempt, check_images, failed, passed, refused
from workers.providers.errors import ProviderError
from workers.providers.ports import Provider
from workers.providers.types import ProviderOffering

_CREDENTIALS = (
    "correct `subscription_id` or `tenant_id` of this account, or grant its identity a role for the subscription"
)
_IMAGE = "correct {setting} of this account, or accept the terms of the image (`az vm image terms accept`)"
_SUBSCRIPTION = "grant the actions that end in `read` for the whole subscription, as in docs/providers/azure.md"
_GROUP = "create the group of `resource_group` (`az group create`), or correct the setting"


def of_account(provider: Provider, group: Group, account: AzureAccount) -> Iterator[AccountCheck]:
    """What concerns the whole account: credentials, rights, and the listings of the subscription and the group."""
    try:
        yield passed(CheckSubject.CREDENTIALS, "subscription", provider.identity())
    except ProviderError as error:
        yield refused(CheckSubject.CREDENTIALS, "subscription", error, _CREDENTIALS)
        return
    yield registrations.check_state(group)
    yield from registrations.check(group, account)
    yield from _check_rights(group)
    for subnet in dict.fromkeys(account.subnet_ids.values()):
        name = subnet.rpartition("/virtualNetworks/")[2].replace("/subnets/", "/")
        yield _check_join(group, JOIN_SUBNET, subnet, name, "the subnet")
    for group_id in dict.fromkeys(account.network_security_group_ids.values()):
        name = group_id.rpartition("/")[2]
        yield _check_join(group, JOIN_SECURITY_GROUP, group_id, name, "the network security group")
    for group_id in dict.fromkeys(entry.id for entry in account.reservations if entry.id is not None):
        yield from _check_reservation_rights(group, group_id)
    yield attempt(
        CheckSubject.RIGHT, "VMs of the subscription", lambda: _read_first(group, listings.ALL_VMS), _SUBSCRIPTION
    )
    yield attempt(
        CheckSubject.RIGHT, f"VMs of {account.resource_group}", lambda: _read_first(group, listings.VMS), _GROUP
    )


def _read_first(group: Group, listing: listings.Listing) -> str:
    next(iter(listings.pages(group, listing)))
    return ""


def _check_rights(group: Group) -> Iterator[AccountCheck]:
    try:
        permissions = _permissions(group, group.id)
    except ProviderError as error:
        yield refused(CheckSubject.RIGHT, LIST_PERMISSIONS, error, f"grant {LIST_PERMISSIONS}; only the check needs it")
        return
    for right in RIGHTS:
        if right != JOIN_SUBNET:
            yield _check_right(right, right, permissions, "the resource group")


def _check_join(group: Group, right: str, resource_id: str, short_name: str, scope: str) -> AccountCheck:
    """The right to put a VM into a subnet or a network security group, which may be in another resource group."""
    name = f"{right} on {short_name}"
    try:
        permissions = _permissions(group, resource_id)
    except ProviderError as error:
        return refused(CheckSubject.RIGHT, name, error, f"grant {LIST_PERMISSIONS} there; only the check needs it")
    return _check_right(right, name, permissions, scope)


def _check_reservation_rights(group: Group, group_id: str) -> Iterator[AccountCheck]:
    """The rights on a capacity reservation group, which may be in another group."""
    group_name = group_id.rpartition("/")[2]
    try:
        permissions = _permissions(group, group_id)
    except ProviderError as error:
        fix = f"grant {LIST_PERMISSIONS} there; only the check needs it"
        yield refused(CheckSubject.RIGHT, f"{RESERVATION_RIGHTS[0]} on {group_name}", error, fix)
        return
    for right in RESERVATION_RIGHTS:
        yield _check_right(right, f"{right} on {group_name}", permissions, "the capacity reservation group")


def _check_right(right: str, name: str, permissions: Sequence[Any], scope: str) -> AccountCheck:
    if is_granted(right, permissions):
        return passed(CheckSubject.RIGHT, name)
    return failed(
        CheckSubject.RIGHT, name, f"missing for {scope}", f"add {right} to the role, as in docs/providers/azure.md"
    )


def _permissions(group: Group, scope: str) -> list[Any]:
    """The roles of the identity at a scope, inherited ones included. Raises ProviderError."""
    path = f"{scope}/providers/Microsoft.Authorization/permissions"
    return [role for page in listings.pages_at(group, path, listings.PERMISSIONS) for role in page]


def of_region(provider: Provider, group: Group, account: AzureAccount, region: str) -> Iterator[AccountCheck]:
    """What concerns one region."""
    subnet = account.subnet_ids.get(region)
    if subnet is None:
        fix = f"add {region} to `subnet_ids`, or remove it from `regions`"
        yield failed(CheckSubject.SUBNET, region, "no subnet is configured: nothing is offered there", fix)
        return
    offered, check = _check_offerings(provider, region)
    yield check
    yield place_checks.check_subnet(group, subnet, region)
    security_group = account.network_security_group_ids.get(region)
    if security_group is not None:
        yield place_checks.check_security_group(group, security_group, region, account.ssh_port)
    yield from check_images(lambda name: provider.image(region, name).id, account.images, _IMAGE)
    yield from quotas.check_region(group, offered, region)


def _check_offerings(provider: Provider, region: str) -> tuple[Sequence[ProviderOffering], AccountCheck]:
    try:
        offered = provider.offered(region)
    except ProviderError as error:
        return [], refused(CheckSubject.REGION, region, error, _SUBSCRIPTION)
    if not offered:
        fix = "ask Azure support to open GPU sizes of this region for the subscription, or choose another region"
        return [], failed(CheckSubject.REGION, region, "no GPU size of the catalogue is open to the subscription", fix)
    types, zones = {offer.type.name for offer in offered}, {offer.zone for offer in offered}
    return offered, passed(CheckSubject.REGION, region, f"{len(types)} GPU sizes in {len(zones)} zones")
