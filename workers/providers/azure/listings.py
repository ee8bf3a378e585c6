"""Azure's listings, read page by page as plain JSON.

The adapter does not use the SDK's models here. They read a page without its list as an empty page, which would mark
every VM as ended. They also cost ten times the CPU.
"""

from collections.abc import Iterator, Mapping
from typing import Any

from azure.core.rest import HttpRequest

from workers.providers.azure.calls import Document, part
from workers.providers.azure.clients import Group
from workers.providers.azure.errors import translated

_COMPUTE, _DISKS, _SKUS, _NETWORK = "2026-04-01", "2026-03-02", "2021-07-01", "2026-03-01"
"""API versions, equal to those of the SDK that makes the other calls."""

_IN_GROUP = "resourceGroups/{group}/providers"
_VMS = "Microsoft.Compute/virtualMachines"

VMS = (f"{_IN_GROUP}/{_VMS}", _COMPUTE)
ALL_VMS = (f"providers/{_VMS}", _COMPUTE)
DISKS = (f"{_IN_GROUP}/Microsoft.Compute/disks", _DISKS)
INTERFACES = (f"{_IN_GROUP}/Microsoft.Network/networkInterfaces", _NETWORK)
ADDRESSES = (f"{_IN_GROUP}/Microsoft.Network/publicIPAddresses", _NETWORK)
SECURITY_GROUPS = (f"{_IN_GROUP}/Microsoft.Network/networkSecurityGroups", _NETWORK)
APPLICATION_GROUPS = (f"{_IN_GROUP}/Microsoft.Network/applicationSecurityGroups", _NETWORK)
PROXIMITY_GROUPS = (f"{_IN_GROUP}/Microsoft.Compute/proximityPlacementGroups", _COMPUTE)
AVAILABILITY_SETS = (f"{_IN_GROUP}/Microsoft.Compute/availabilitySets", _COMPUTE)
SKUS = ("providers/Microsoft.Compute/skus", _SKUS)
PERMISSIONS = "2022-04-01"
"""API version of Microsoft.Authorization/permissions."""
NETWORK = _NETWORK
USAGES = ("providers/Microsoft.Compute/locations/{region}/usages", _COMPUTE)

Listing = tuple[str, str]
"""Path below the subscription, and the API version."""


def pages(
    group: Group, listing: Listing, *, region: str = "", query: Mapping[str, str] | None = None
) -> Iterator[list[Document]]:
    """Every page. Fetches a page only when the caller reads it. Raises ProviderError."""
    path, version = listing
    below = path.format(group=group.name, region=region)
    yield from pages_at(group, f"/subscriptions/{group.subscription}/{below}", version, query)


def pages_at(group: Group, path: str, version: str, query: Mapping[str, str] | None = None) -> Iterator[list[Document]]:
    """Every page of the listing at a path. Raises ProviderError."""
    url: str | None = path
    params: dict[str, str] = {"api-version": version, **(query or {})}
    while url:
        page = _page(group, HttpRequest("GET", url, params=params))
        yield part(page, "value")
        url, params = page.get("nextLink"), {}


def resource(group: Group, resource_id: str, version: str) -> Document:
    """One resource by its id, in any resource group or subscription. Raises ProviderError."""
    document: Document = _page(group, HttpRequest("GET", resource_id, params={"api-version": version}))
    return document


def items(
    group: Group, listing: Listing, *, region: str = "", query: Mapping[str, str] | None = None
) -> Iterator[Document]:
    """The items of all pages. Raises ProviderError."""
    for page in pages(group, listing, region=region, query=query):
        yield from page


def _page(group: Group, request: HttpRequest) -> Any:
    with translated():
        answer = group.compute.send_request(request)
        answer.raise_for_status()
        return answer.json()
