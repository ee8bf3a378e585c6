"""Listed prices of what a VM has besides compute: `part_prices.csv` beside the catalogue of a provider.

The columns are those of `COLUMNS`. `kind` is the provider's name of a kind of network disk (USD for a GiB and a month), or
`address` (USD for an hour of a public IPv4 address). `region` is `*` for every region without a line of its own. The comment
lines `# source:` and `# as-of:` hold for the whole file.
"""

import csv
from collections.abc import Mapping
from datetime import UTC, datetime
from decimal import Decimal
from importlib.resources import files

from workers.providers.types import PartPrice

FILE = "part_prices.csv"
COLUMNS = ("region", "kind", "usd")
EVERY_REGION = "*"

PartPriceList = Mapping[tuple[str, str], PartPrice]
"""By region and kind."""


def load_part_prices(package: str) -> PartPriceList:
    """The list that is part of a provider's package; empty for a provider without one.

    `package` is empty for a provider that is a single module.
    """
    if not package:
        return {}
    path = files(package).joinpath(FILE)
    return parse(path.read_text(encoding="utf-8")) if path.is_file() else {}


def parse(text: str) -> PartPriceList:
    """Raises ValueError, naming the line, for a wrong line and for a second price of the same kind."""
    comments = [line for line in text.splitlines() if line.startswith("#")]
    shared = dict(line.removeprefix("# ").split(": ", 1) for line in comments if ": " in line)
    rows = csv.DictReader(line for line in text.splitlines() if not line.startswith("#"))
    prices: dict[tuple[str, str], PartPrice] = {}
    for number, row in enumerate(rows, start=len(comments) + 2):
        try:
            key, usd = (row["region"], row["kind"]), Decimal(row["usd"])
            as_of = datetime.strptime(shared["as-of"], "%Y-%m-%d").replace(tzinfo=UTC)
            price = PartPrice(usd=usd, as_of=as_of, source=shared["source"])
        except (ArithmeticError, KeyError, TypeError, ValueError) as error:
            msg = f"line {number} is not a price: {error!r}"
            raise ValueError(msg) from None
        if key in prices:
            msg = f"line {number} is a second price of {' '.join(key)}"
            raise ValueError(msg)
        prices[key] = price
    return prices


def in_region(prices: PartPriceList, region: str) -> Mapping[str, PartPrice]:
    """By kind: the region's own price, else that of every region."""
    everywhere = {kind: price for (place, kind), price in prices.items() if place == EVERY_REGION}
    return {**everywhere, **{kind: price for (place, kind), price in prices.items() if place == region}}
