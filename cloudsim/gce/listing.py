"""Lists: filtered, in pages, by zone or aggregated over all zones, some of which may be unreachable."""

from __future__ import annotations

import base64
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

from cloudsim.gce import links
from cloudsim.gce.call import Call, Result
from cloudsim.gce.catalog import PROVIDER
from cloudsim.gce.errors import invalid
from cloudsim.gce.filters import Filter, parse

MOST = 500
_UNREACHABLE = {"code": "UNREACHABLE", "message": "The scope is unreachable: its content is not in this answer."}


@dataclass(frozen=True, slots=True)
class ListEntry:
    """One thing: where it stands in the order of all, its zone, and its JSON on demand."""

    position: int
    zone: str
    render: Callable[[], Result]


@dataclass(frozen=True, slots=True)
class Kind:
    """What a list is of: `compute#<singular>List`, and the member of a scope that holds them."""

    singular: str
    member: str


def asked(call: Call) -> Filter:
    """The call's filter. Raises GceError invalid."""
    return parse(call.query.get("filter"))


def after(call: Call) -> int:
    """The position that the last page ended with. Raises GceError invalid, also for a token that has expired."""
    token = call.query.get("pageToken")
    if not token:
        return 0
    try:
        issued, position = base64.urlsafe_b64decode(token).decode().split(":")
        age, start = call.now - float(issued), int(position)
    except ValueError:
        raise invalid("pageToken", "The page token is not valid.") from None
    if age > call.world.settings.page_token_seconds:
        raise invalid("pageToken", "The page token has expired.")
    return start


def _page(call: Call, entries: Iterable[ListEntry], chosen: Filter) -> tuple[list[tuple[str, Result]], dict[str, Any]]:
    """(zone, JSON) of one page, and the members that lead to the next."""
    most = min(int(call.query.get("maxResults", MOST)), MOST)
    taken: list[tuple[str, Result]] = []
    position = 0
    for entry in entries:
        document = entry.render()
        if not chosen.matches(document):
            continue
        if len(taken) == most:
            token = base64.urlsafe_b64encode(f"{call.now}:{position}".encode()).decode()
            return taken, {"nextPageToken": token}
        taken.append((entry.zone, document))
        position = entry.position
    return taken, {}


def flat(call: Call, kind: Kind, entries: Iterable[ListEntry], place: str) -> Result:
    """`items` is a list."""
    taken, onward = _page(call, entries, asked(call))
    items = {"items": [document for _, document in taken]} if taken else {}
    return {"kind": f"compute#{kind.singular}List", "id": f"projects/{call.project}/{place}", **items, **onward}


def aggregated(call: Call, kind: Kind, entries: Iterable[ListEntry], operation: str) -> Result:
    """`items` has a member for each zone; an unreachable zone has a warning instead and is in `unreachables`."""
    lost = _unreachable(call, operation)
    taken, onward = _page(call, (entry for entry in entries if entry.zone not in lost), asked(call))
    scopes: dict[str, Any] = {}
    for zone, document in taken:
        scopes.setdefault(f"zones/{zone}", {kind.member: []})[kind.member].append(document)
    for zone in call.world.catalogs[PROVIDER].zones:
        scopes.setdefault(f"zones/{zone}", {"warning": _warning(zone, lost)})
    unreachable = {"unreachables": [links.zonal(call.project, zone) for zone in sorted(lost)]} if lost else {}
    return {
        "kind": f"compute#{kind.singular}AggregatedList",
        "id": f"projects/{call.project}/aggregated/{kind.member}",
        "items": scopes,
        **unreachable,
        **onward,
    }


def _warning(zone: str, lost: frozenset[str]) -> Result:
    scope = {"key": "scope", "value": f"zones/{zone}"}
    if zone in lost:
        return {**_UNREACHABLE, "data": [scope]}
    empty = f"There are no results for scope 'zones/{zone}' on this page."
    return {"code": "NO_RESULTS_ON_PAGE", "message": empty, "data": [scope]}


def _unreachable(call: Call, operation: str) -> frozenset[str]:
    """Zones with a fault of their own, or of their region, on this operation: each list meets it once."""
    lost: set[str] = set()
    for region, zones in call.world.catalogs[PROVIDER].regions.items():
        if call.world.faults.take(PROVIDER, operation, region) is not None:
            lost.update(zones)
        lost.update(zone for zone in zones if call.world.faults.take(PROVIDER, operation, zone) is not None)
    if lost:
        call.world.touch_facts()
    return frozenset(lost)
