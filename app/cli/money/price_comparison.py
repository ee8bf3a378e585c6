"""Offerings for people: the zones of one offer on one line, and prices per GPU side by side."""

from collections.abc import Iterable, Mapping, Sequence

from app.cli.errors import Json
from app.cli.render.layout import Layout
from app.cli.render.output import Columns, ValueSource, at
from app.cli.render.texts import location

_SAME = ("provider", "account", "region", "instance_type", "market", "price_per_hour")


def merge_zones(items: Iterable[Json]) -> list[Json]:
    """Offerings that differ in the zone alone become one, with `zones`. The first one's place in the order stays."""
    groups: dict[object, Json] = {}
    for item in items:
        key = (*(item.get(name) for name in _SAME), at(item, "availability.status"), at(item, "reservation.name"))
        group = groups.setdefault(key, {**item, "zones": []})
        group["zones"].append(item.get("zone"))
    return list(groups.values())


def zones(item: Json) -> str | None:
    """`us-east-1a,b,d` for several zones of one region."""
    names = [str(name) for name in item.get("zones") or [item.get("zone")] if name]
    region = str(item.get("region") or "")
    if not names:
        return region or None
    return ",".join([names[0], *(name.removeprefix(region).lstrip("-") for name in names[1:])])


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
