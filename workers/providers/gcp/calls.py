"""Helpers for lists that the GCP modules share: filters, and reading zone by zone."""

from collections.abc import Sequence
from typing import Any, NamedTuple

from workers.providers.errors import OutcomeUnknown
from workers.providers.gcp.ids import in_region, last

EMPTY = "NO_RESULTS_ON_PAGE"
NAMES_PER_CALL = 50
"""Of a filter by name, so that its URL stays short."""
_ZONES = "zones/"


class ScopedPage(NamedTuple):
    """One page of an aggregated list, of all regions or of one.

    `zones`: pairs of a zone and its content. `unreachable`: the zones that Google could not read.
    """

    zones: Sequence[tuple[str, Any]]
    unreachable: frozenset[str]


def everywhere(page: Any) -> ScopedPage:
    """One page of an aggregated list, for all zones.

    Raises OutcomeUnknown for an incomplete list that does not name the missing zones.
    """
    zones, lost = _read(page)
    return ScopedPage(zones, frozenset(map(last, lost)))


def scoped(page: Any, region: str) -> ScopedPage:
    """One page of an aggregated list, for one region.

    Raises OutcomeUnknown when more than single zones is unreachable, because nothing is then known of the region.
    """
    zones, lost = _read(page)
    if any(_ZONES not in scope and last(scope) in {region, "global"} for scope in lost):
        raise OutcomeUnknown(f"{region} is unreachable for a list", code="UNREACHABLE")
    here = [(zone, content) for zone, content in zones if in_region(zone, region)]
    return ScopedPage(here, frozenset(last(scope) for scope in lost if in_region(last(scope), region)))


def _read(page: Any) -> tuple[list[tuple[str, Any]], set[str]]:
    """The content of each zone, and the unreachable scopes."""
    zones, lost = [], set(page.unreachables)
    for scope, content in page.items.items():
        if content.warning.code not in {"", EMPTY}:
            lost.add(scope)
        if scope.startswith(_ZONES):
            zones.append((last(scope), content))
    if page.warning.code not in {"", EMPTY} and not lost:
        raise OutcomeUnknown(f"an incomplete list: {page.warning.message}", code=page.warning.code)
    return zones, lost


def complete(page: Any, region: str) -> Sequence[tuple[str, Any]]:
    """As `scoped`, for a caller that relies on an empty answer. Raises OutcomeUnknown for an unreachable zone."""
    zones, unreachable = scoped(page, region)
    if unreachable:
        raise OutcomeUnknown(f"unreachable: {', '.join(sorted(unreachable))}", code="UNREACHABLE")
    return zones


def either(field: str, values: Sequence[str]) -> str:
    """A list filter: the field has one of these values."""
    return " OR ".join(f'({field} = "{value}")' for value in values)
