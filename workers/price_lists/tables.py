"""Comparing what we hold of types and prices with a table that somebody else made: pure, one row at a time.

A table is CSV with the columns of `COLUMNS`. Regions are compared, not zones: tables name AWS's zones by zone ids, offerings by
the account's own letters, so AWS's spot prices, which differ by zone, are left out.
"""

import csv
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from decimal import Decimal, InvalidOperation

from app.domain.money import format_money
from app.domain.offerings import InstanceType, Market
from app.settings.providers import providers

COLUMNS = (
    "provider",
    "region",
    "zone",
    "instance_type",
    "gpu_model",
    "gpu_count",
    "gpu_memory_gib",
    "vcpus",
    "memory_gib",
    "on_demand_usd_per_hour",
    "spot_usd_per_hour",
    "note",
)
_PRICES = {Market.ON_DEMAND: "on_demand_usd_per_hour", Market.SPOT: "spot_usd_per_hour"}
_DOUBTFUL = "doubtful"
_GPU_MEMORY_TOLERANCE = Decimal("0.1")
"""Some tables contain the nominal memory of a GPU, others what the driver leaves of it."""

Place = tuple[str, str, str]
"""(provider, region, type name)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CataloguePrices:
    """A type in a region as we hold it. `prices`: USD per hour by market, of all zones; `source` says whose they are."""

    type: InstanceType
    prices: Mapping[Market, frozenset[Decimal]]
    source: str


@dataclass(frozen=True, slots=True)
class Difference:
    """What differs at a place: `what` is a market or a fact of the type. `ours` and `theirs` for a person to read."""

    place: Place
    what: str
    ours: str
    theirs: str

    def __str__(self) -> str:
        return f"{' '.join(self.place)}: {self.what} is {self.ours}, in the table {self.theirs}"


@dataclass(frozen=True, slots=True)
class Comparison:
    """`compared` prices; `doubtful` rows whose on-demand price the table itself doubts; `unknown` places that we do not hold."""

    differences: tuple[Difference, ...]
    compared: int
    doubtful: int
    unknown: int


def read(lines: Iterable[str]) -> list[dict[str, str]]:
    """The rows of a table. Raises ValueError naming the column or the line that is wrong."""
    reader = csv.DictReader(lines)
    missing = [name for name in COLUMNS if name not in (reader.fieldnames or ())]
    if missing:
        msg = f"it has no column {missing[0]}"
        raise ValueError(msg)
    rows = list(reader)
    for number, row in enumerate(rows, start=2):
        for column in COLUMNS[5:11]:
            try:
                Decimal(row[column] or 0)
            except (InvalidOperation, TypeError):
                msg = f"line {number}: {column} is no number: {row[column]!r}"
                raise ValueError(msg) from None
    return rows


def compare(held: Mapping[Place, CataloguePrices], rows: Iterable[Mapping[str, str]], tolerance: Decimal) -> Comparison:
    """`tolerance`: the part by which a price may be off the table's without counting, such as 0.15."""
    differences: dict[Difference, None] = {}
    unknown: set[Place] = set()
    compared: set[tuple[Place, Market]] = set()
    doubtful = 0
    for row in rows:
        place = (row["provider"], row["region"], row["instance_type"])
        ours = held.get(place)
        if ours is None:
            unknown.add(place)
            continue
        doubted = _DOUBTFUL in row["note"]
        doubtful += doubted
        differences.update(dict.fromkeys(_facts(place, ours.type, row)))
        for market, theirs in _listed_prices(row, on_demand=not doubted):
            if ours.prices.get(market):
                compared.add((place, market))
                differences.update(dict.fromkeys(_price(place, ours, market, theirs, tolerance)))
    return Comparison(tuple(differences), len(compared), doubtful, len(unknown))


def _listed_prices(row: Mapping[str, str], *, on_demand: bool) -> Iterator[tuple[Market, Decimal]]:
    for market, column in _PRICES.items():
        by_zone = market is Market.SPOT and providers()[row["provider"]].spot_price_by_zone
        compares = not by_zone and (on_demand or market is not Market.ON_DEMAND)
        if row[column] and compares:
            yield market, Decimal(row[column])


def _price(
    place: Place, ours: CataloguePrices, market: Market, theirs: Decimal, tolerance: Decimal
) -> Iterator[Difference]:
    nearest = min(ours.prices[market], key=lambda price: abs(price - theirs))
    if abs(nearest - theirs) > tolerance * theirs:
        percent = f"{(nearest - theirs) / theirs:+.0%}" if theirs else "free there"
        yield Difference(
            place, str(market), f"{format_money(nearest)} ({ours.source})", f"{format_money(theirs)}, {percent}"
        )


def _facts(place: Place, kind: InstanceType, row: Mapping[str, str]) -> Iterator[Difference]:
    gpu = kind.gpu
    model = row["gpu_model"].partition("-")[0]
    if model and model != gpu.model:
        yield Difference(place, "gpu_model", gpu.model, row["gpu_model"])
    exact = (("gpu_count", gpu.count), ("vcpus", kind.vcpus), ("memory_gib", kind.memory_gib))
    for column, ours in exact:
        if row[column] and Decimal(row[column]) != ours:
            yield Difference(place, column, f"{ours}", row[column])
    memory = Decimal(row["gpu_memory_gib"] or gpu.memory_gib)
    if abs(memory - gpu.memory_gib) > _GPU_MEMORY_TOLERANCE * gpu.memory_gib:
        yield Difference(place, "gpu_memory_gib", f"{gpu.memory_gib}", row["gpu_memory_gib"])
