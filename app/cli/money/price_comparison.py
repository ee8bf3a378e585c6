"""Offerings for people: the places of one offer on one line, and prices per GPU side by side."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

from app.cli.errors import Json
from app.cli.render.layout import Layout
from app.cli.render.output import Columns, ValueSource, at
from app.cli.render.texts import location

_SAME = ("provider", "account", "instance_type", "market", "price_per_hour", "price_status")
_MOST_REGIONS = 3


def merge_places(items: Iterable[Json]) -> list[Json]:
    """Offerings of one price become one, with `places`: their zones in every region. The first one's position stays."""
    groups: dict[object, Json] = {}
    for item in items:
        key = (*(item.get(name) for name in _SAME), at(item, "reservation.name"))
        groups.setdefault(key, {**item, "places": []})["places"].append(item)
    return list(groups.values())


def places(item: Json) -> str | None:
    """`us-east-1a,b,d` for several zones of one region. `us-east-1a,b us-west-2a and 4 regions` for more regions."""
    zones: dict[str, list[str]] = {}
    for place in item.get("places") or [item]:
        zones.setdefault(str(place.get("region") or ""), []).append(str(place.get("zone") or ""))
    texts = [_zones(region, names) for region, names in zones.items()]
    if len(texts) > _MOST_REGIONS:
        texts = [*texts[: _MOST_REGIONS - 1], f"and {len(texts) - _MOST_REGIONS + 1} regions"]
    return " ".join(filter(None, texts)) or None


def _zones(region: str, names: Sequence[str]) -> str:
    first, *others = [name for name in names if name] or [region]
    return ",".join([first, *(name.removeprefix(region).lstrip("-") for name in others)])


def availability(item: Json) -> str:
    """`available`, or `2 available, 1 cooling_off capacity` where the places differ."""
    counts = Counter(_availability(place) for place in item.get("places") or [item])
    if len(counts) == 1:
        return next(iter(counts))
    return ", ".join(f"{count} {status}" for status, count in counts.items())


def _availability(item: Json) -> str:
    parts = [at(item, "availability.status"), at(item, "availability.reason")]
    return " ".join(str(part) for part in parts if part)


def compare(items: Iterable[Json]) -> list[Json]:
    """One row for each GPU model and market: the lowest price per GPU and hour of each provider, and the cheapest offer.

    Offerings without a price do not count.
    """
    rows: dict[tuple[str, int, str], Json] = {}
    for item in items:
        price, model = item.get("price_per_gpu_hour"), at(item, "gpu.model")
        if price is None or not model:
            continue
        key = (str(model), int(at(item, "gpu.memory_gib") or 0), str(item.get("market")))
        row = rows.setdefault(key, {"model": key[0], "memory_gib": key[1], "market": key[2], "prices": {}})
        prices = row["prices"]
        known = prices.get(item["provider"])
        if known is None or float(price) < float(known):
            prices[item["provider"]] = price
        if "best" not in row or float(price) < float(row["best"]["price_per_gpu_hour"]):
            row["best"] = item
    return [rows[key] for key in sorted(rows)]


def comparison_columns(rows: Sequence[Json]) -> Columns:
    """GPU and market, a column for each provider, and the cheapest offer."""
    providers = sorted({provider for row in rows for provider in row["prices"]})
    return (
        ("GPU", _gpu),
        ("MARKET", "market"),
        *((provider.upper(), _price(provider)) for provider in providers),
        ("CHEAPEST", lambda row: f"{at(row, 'best.gpu.count')} x in {at(row, 'best.instance_type')}"),
        ("LOCATION", lambda row: location(row.get("best"))),
    )


def comparison_layout(columns: Columns) -> Layout:
    """Prices before the cheapest offer."""
    titles = [title for title, _ in columns]
    return Layout(titles, right=frozenset(titles[2:-2]))


def _gpu(row: Mapping[str, object]) -> str:
    memory = row.get("memory_gib")
    return f"{row['model']} {memory} GiB" if memory else str(row["model"])


def _price(provider: str) -> ValueSource:
    return lambda row: f"{float(row['prices'][provider]):.3f}" if provider in row["prices"] else None
