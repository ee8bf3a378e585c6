"""`gpulease-server prices compare FILE`: how far the prices held here are from a table that somebody else made."""

import sys
from collections import defaultdict
from collections.abc import Iterable, Mapping
from decimal import Decimal
from pathlib import Path

from sqlalchemy.exc import DBAPIError

from app.db.fleet import offerings
from app.db.fleet.offerings import offering_from_row
from app.domain.offerings import InstanceType, Market, Offering
from app.settings import StartupError, load_settings
from app.settings.providers import providers
from workers.price_lists.tables import CataloguePrices, Comparison, Place, compare, read
from workers.providers.registry import catalogue
from workers.runtime.database import WorkerDatabase


def compare_file(path: Path, tolerance: Decimal, *, of_adapters: bool) -> int:
    """0 when nothing differs, 1 when something does. Raises StartupError when the program cannot compare.

    `tolerance`: the part by which a price may differ, such as 0.15. `of_adapters`: compare the lists of the adapters.
    """
    rows = _table(path)
    held = of_listings() if of_adapters else of_offerings(_offerings(load_settings().database_url))
    result = compare(held, rows, tolerance)
    sys.stdout.write(_report(result))
    return 1 if result.differences else 0


def of_offerings(offerings: Iterable[Offering]) -> Mapping[Place, CataloguePrices]:
    """What the database holds, zones and accounts of a region together."""
    types: dict[Place, InstanceType] = {}
    prices: dict[Place, dict[Market, set[Decimal]]] = defaultdict(lambda: defaultdict(set))
    sources: dict[Place, dict[str, None]] = defaultdict(dict)
    for offering in offerings:
        place = (offering.provider, offering.key.region, offering.key.instance_type)
        types[place] = offering.type
        if offering.price_per_hour is not None and offering.price_as_of is not None:
            prices[place][offering.key.market].add(offering.price_per_hour)
            sources[place][f"{offering.price_source}, {offering.price_as_of:%Y-%m-%d}"] = None
    return {
        place: CataloguePrices(
            type=kind,
            prices={market: frozenset(in_market) for market, in_market in prices[place].items()},
            source="; ".join(sources[place]),
        )
        for place, kind in types.items()
    }


def of_listings() -> Mapping[Place, CataloguePrices]:
    """What comes with the adapters; no database and no network is asked."""
    held: dict[Place, CataloguePrices] = {}
    for provider in providers():
        listed = catalogue(provider)
        for region, name in {(region, name) for region, name, _ in listed.prices if name in listed.types}:
            prices = {
                market: listed.prices[key] for market in Market if (key := (region, name, market)) in listed.prices
            }
            held[provider, region, name] = CataloguePrices(
                type=listed.types[name],
                prices={market: frozenset({price.per_hour}) for market, price in prices.items()},
                source=f"list of {min(price.as_of for price in prices.values()):%Y-%m-%d}",
            )
    return held


def _table(path: Path) -> list[dict[str, str]]:
    try:
        with path.open(encoding="utf-8", newline="") as lines:
            return read(lines)
    except OSError as error:
        reason = error.strerror
    except ValueError as error:
        reason = str(error)
    raise StartupError(f"cannot compare with {path}: {reason}")


def _offerings(url: str) -> list[Offering]:
    database = WorkerDatabase(url, pool_size=1)
    try:
        return [offering_from_row(row) for row in database.all(offerings.candidates())]
    except DBAPIError as error:
        reason = (str(error.orig).strip() or type(error).__name__).splitlines()[0]
        raise StartupError(f"cannot use the database of GPULEASE_DATABASE_URL: {reason}") from None
    finally:
        database.close()


def _report(result: Comparison) -> str:
    lines = [
        str(difference)
        for difference in sorted(result.differences, key=lambda difference: (difference.place, difference.what))
    ]
    summary = f"{result.compared} prices compared, {len(lines)} differences"
    left_out = (
        f"not compared: {result.unknown} types in regions that are not offered here, "
        f"on-demand prices of {result.doubtful} rows that the table doubts"
    )
    return "\n".join([*lines, summary, left_out, ""])
