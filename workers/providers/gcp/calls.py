"""What every module here needs of lists: in portions, by filter, and zone by zone."""

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from workers.providers.errors import OutcomeUnknown
from workers.providers.gcp.ids import in_region, last

EMPTY = "NO_RESULTS_ON_PAGE"
_ZONES = "zones/"


class Scoped(NamedTuple):
    """One page of an aggregated list, of all regions or of one: (zone, what it holds), and the zones out of reach."""

    found: Sequence[tuple[str, Any]]
    unreachable: frozenset[str]


def everywhere(page: Any) -> Scoped:
    """What one page of an aggregated list tells of all zones. Raises OutcomeUnknown for a list that does not say what it lacks."""
    found, lost = _read(page)
    return Scoped(found, frozenset(map(last, lost)))


def scoped(page: Any, region: str) -> Scoped:
    """What it tells of one region. Raises OutcomeUnknown when more is out of reach than single zones: then nothing is known."""
    found, lost = _read(page)
    if any(_ZONES not in one and last(one) in {region, "global"} for one in lost):
        raise OutcomeUnknown(f"{region} is out of reach for a list", code="UNREACHABLE")
    here = [(zone, held) for zone, held in found if in_region(zone, region)]
    return Scoped(here, frozenset(last(one) for one in lost if in_region(last(one), region)))


def _read(page: Any) -> tuple[list[tuple[str, Any]], set[str]]:
    """What each zone holds, and the scopes out of reach."""
    found, lost = [], set(page.unreachables)
    for scope, held in page.items.items():
        if held.warning.code not in {"", EMPTY}:
            lost.add(scope)
        if scope.startswith(_ZONES):
            found.append((last(scope), held))
    if page.warning.code not in {"", EMPTY} and not lost:
        raise OutcomeUnknown(f"an incomplete list: {page.warning.message}", code=page.warning.code)
    return found, lost


def complete(page: Any, region: str) -> Sequence[tuple[str, Any]]:
    """The same for a question whose empty answer is believed. Raises OutcomeUnknown for a zone out of reach."""
    found, unreachable = scoped(page, region)
    if unreachable:
        raise OutcomeUnknown(f"out of reach: {', '.join(sorted(unreachable))}", code="UNREACHABLE")
    return found


def chunks(items: Sequence[str], size: int) -> Iterator[list[str]]:
    """Consecutive slices of at most `size`."""
    for start in range(0, len(items), size):
        yield list(items[start : start + size])


def either(field: str, values: Sequence[str]) -> str:
    """A list filter: the field has one of these values."""
    return " OR ".join(f'({field} = "{value}")' for value in values)
