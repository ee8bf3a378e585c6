"""Azure's listings, page by page, read as the JSON that they are.

Not through the SDK's models: those take a page without its list for an empty one, which here would read as the end of
every VM, and cost ten times the CPU.
"""

from collections.abc import Iterator, Mapping
from typing import Any

from azure.core.rest import HttpRequest

from workers.providers.azure.calls import Document, part
from workers.providers.azure.clients import Group
from workers.providers.azure.errors import translated

_COMPUTE, _DISKS, _SKUS, _NETWORK = "2026-04-01", "2026-03-02", "2021-07-01", "2026-03-01"
"""Versions of the API: those of the SDK that makes the other calls."""

_IN_GROUP = "resourceGroups/{group}/providers"
_VMS = "Microsoft.Compute/virtualMachines"

VMS = (f"{_IN_GROUP}/{_VMS}", _COMPUTE)
ALL_VMS = (f"providers/{_VMS}", _COMPUTE)
DISKS = (f"{_IN_GROUP}/Microsoft.Compute/disks", _DISKS)
INTERFACES = (f"{_IN_GROUP}/Microsoft.Network/networkInterfaces", _NETWORK)
ADDRESSES = (f"{_IN_GROUP}/Microsoft.Network/publicIPAddresses", _NETWORK)
SECURITY_GROUPS = (f"{_IN_GROUP}/Microsoft.Network/networkSecurityGroups", _NETWORK)
SKUS = ("providers/Microsoft.Compute/skus", _SKUS)
USAGES = ("providers/Microsoft.Compute/locations/{region}/usages", _COMPUTE)

Listing = tuple[str, str]
"""Path below the subscription, and the API's version."""


def pages(
    group: Group, listing: Listing, *, region: str = "", query: Mapping[str, str] | None = None
) -> Iterator[list[Document]]:
    """Every page, each fetched when it is asked for. Raises ProviderError."""
    path, version = listing
    below = path.format(group=group.name, region=region)
    url: str | None = f"/subscriptions/{group.subscription}/{below}"
    params: dict[str, str] = {"api-version": version, **(query or {})}
    while url:
        page = _page(group, HttpRequest("GET", url, params=params))
        yield part(page, "value")
        url, params = page.get("nextLink"), {}


def items(
    group: Group, listing: Listing, *, region: str = "", query: Mapping[str, str] | None = None
) -> Iterator[Document]:
    """All pages in one."""
    for page in pages(group, listing, region=region, query=query):
        yield from page


def _page(group: Group, request: HttpRequest) -> Any:
    with translated():
        answer = group.compute.send_request(request)
        answer.raise_for_status()
        return answer.json()
