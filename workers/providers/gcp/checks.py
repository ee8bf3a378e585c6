"""The checks of one Google project before its first lease: what they ask, and in which order."""

from collections.abc import Iterator, Sequence
from typing import Any

from app.domain.account_checks import AccountCheck, CheckSubject
from app.settings.reservations import ReservationSettings
from workers.providers.common.checks import attempt, check_images, failed, passed, refused
from workers.providers.errors import CredentialsRejected, ProviderError
from workers.providers.gcp import prices, quotas, subnet_checks
from workers.providers.gcp.clients import PRICES_SCOPE, GcpClients
from workers.providers.gcp.rights import RESERVATION_RIGHTS, RIGHTS
from workers.providers.gcp.sdk import ProjectsClient, RegionsClient
from workers.providers.gcp.settings import GcpAccount
from workers.providers.ports import Provider
from workers.providers.types import ProviderOffering

_PUBLIC = "https://cloudresourcemanager.googleapis.com"
_SCOPE = "https://www.googleapis.com/auth/cloud-platform.read-only"
_FORBIDDEN = frozenset({"forbidden", "insufficientPermissions"})
"""The credentials work, and lack a right. The checks of rights name it."""
_CREDENTIALS = (
    "correct `project`, `credentials_file` or `impersonate` of this account, and enable the Compute Engine API"
)
_RESOURCE_MANAGER = (
    "enable the Cloud Resource Manager API (`gcloud services enable cloudresourcemanager.googleapis.com`)"
)
_BILLING = "enable the Cloud Billing API (`gcloud services enable cloudbilling.googleapis.com`)"
_IMAGE = "correct {setting} of this account, or grant roles/compute.imageUser on the image's project"
_REGION = "correct `regions` of this account"


def of_account(provider: Provider, clients: GcpClients, account: GcpAccount) -> Iterator[AccountCheck]:
    """What concerns the whole project. Images are the same in all regions."""
    try:
        yield passed(CheckSubject.CREDENTIALS, account.project, f"project number {provider.identity()}")
    except ProviderError as error:
        if not isinstance(error, CredentialsRejected) or error.code not in _FORBIDDEN:
            yield refused(CheckSubject.CREDENTIALS, account.project, error, _CREDENTIALS)
            return
    yield from _check_rights(clients, account)
    yield attempt(CheckSubject.RIGHT, "Cloud Billing API", lambda: _read_price_list(clients, account), _BILLING)
    yield from check_images(lambda name: provider.image(account.regions[0], name).id, account.images, _IMAGE)
    yield from _check_project_quota(clients)


def _check_rights(clients: GcpClients, account: GcpAccount) -> Iterator[AccountCheck]:
    """Needs no right itself (Resource Manager API reference, `projects.testIamPermissions`)."""
    endpoint = (account.endpoint_url or _PUBLIC).rstrip("/")
    url = f"{endpoint}/v1/projects/{account.project}:testIamPermissions"
    rights = (*RIGHTS, *(RESERVATION_RIGHTS if any(_is_read(entry) for entry in account.reservations) else ()))
    try:
        answer = clients.request("POST", url, scope=_SCOPE, body={"permissions": list(rights)})
    except ProviderError as error:
        yield refused(CheckSubject.RIGHT, "testIamPermissions", error, _RESOURCE_MANAGER)
        return
    granted = set(answer.get("permissions") or ())
    for right in rights:
        if right in granted:
            yield passed(CheckSubject.RIGHT, right)
        else:
            fix = f"add {right} to the role of this account's identity, as in docs/providers/gcp.md"
            yield failed(CheckSubject.RIGHT, right, "missing", fix)


def _is_read(reservation: ReservationSettings) -> bool:
    """Whether gpulease reads it in this project. Flex-start has no id, and a shared reservation names its project."""
    return reservation.id is not None and not reservation.id.startswith("projects/")


def _read_price_list(clients: GcpClients, account: GcpAccount) -> str:
    url = (account.endpoint_url or prices.PUBLIC).rstrip("/") + prices.PATH
    clients.request("GET", url, scope=PRICES_SCOPE, query={"pageSize": "1"})
    return ""


def _check_project_quota(clients: GcpClients) -> Iterator[AccountCheck]:
    try:
        limits = clients.ask(clients.of(ProjectsClient).get).quotas
    except ProviderError as error:
        yield refused(CheckSubject.QUOTA, quotas.OVERALL, error, "add compute.projects.get to the role")
        return
    yield from quotas.check_overall(limits)


def of_region(provider: Provider, clients: GcpClients, account: GcpAccount, region: str) -> Iterator[AccountCheck]:
    """What concerns one region."""
    try:
        described: Any = clients.ask(clients.of(RegionsClient).get, region=region)
    except ProviderError as error:
        yield refused(CheckSubject.REGION, region, error, _REGION)
        return
    offered, check = _check_offerings(provider, region, str(described.status))
    yield check
    yield from subnet_checks.check_subnetwork(clients, account, region)
    yield from subnet_checks.check_gpu_networks(clients, account, region)
    yield from quotas.check_region(described.quotas, offered, region)


def _check_offerings(provider: Provider, region: str, status: str) -> tuple[Sequence[ProviderOffering], AccountCheck]:
    try:
        offered = provider.offered(region)
    except ProviderError as error:
        return [], refused(CheckSubject.REGION, region, error, "add compute.machineTypes.list to the role")
    if not offered:
        return [], failed(CheckSubject.REGION, region, "no GPU type of the catalogue is offered here", _REGION)
    types, zones = {offer.type.name for offer in offered}, {offer.zone for offer in offered}
    return offered, passed(CheckSubject.REGION, region, f"{status}, {len(types)} GPU types in {len(zones)} zones")
