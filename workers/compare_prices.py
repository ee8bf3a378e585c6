"""`gpulease-server prices compare FILE`: how far the prices held here are from a table that somebody else made."""

import argparse
import sys
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from decimal import Decimal, InvalidOperation
from pathlib import Path

from sqlalchemy.exc import DBAPIError

from app.db.fleet import offerings
from app.db.fleet.offerings import offering_from_row
from app.domain.offerings import InstanceType, Market, Offering
from app.settings import StartupError, load_settings
from app.settings.providers import providers
from workers.database import WorkerDatabase
from workers.price_tables import Comparison, Ours, Place, compare, read
from workers.providers.registry import catalogue


def main(arguments: Sequence[str]) -> int:
    """0 when nothing differs, 1 when something does, 2 with one line on stderr when it cannot be compared."""
    options = _options(arguments)
    try:
        rows = _table(options.file)
        held = of_listings() if options.catalogue else of_offerings(_offerings(load_settings().database_url))
    except StartupError as error:
        sys.stderr.write(f"gpulease-server prices: {error}\n")
        return 2
    result = compare(held, rows, options.tolerance / 100)
    sys.stdout.write(_report(result))
    return 1 if result.differences else 0


def of_offerings(offerings: Iterable[Offering]) -> Mapping[Place, Ours]:
    """What the database holds, zones and accounts of a region together."""
    types: dict[Place, InstanceType] = {}
    prices: dict[Place, dict[Market, set[Decimal]]] = defaultdict(lambda: defaultdict(set))
    sources: dict[Place, dict[str, None]] = defaultdict(dict)
    for one in offerings:
        place = (one.provider, one.key.region, one.key.instance_type)
        types[place] = one.type
        if one.price_per_hour is not None and one.price_as_of is not None:
            prices[place][one.key.market].add(one.price_per_hour)
            sources[place][f"{one.price_source}, {one.price_as_of:%Y-%m-%d}"] = None
    return {
        place: Ours(
            type=kind,
            prices={market: frozenset(found) for market, found in prices[place].items()},
            source="; ".join(sources[place]),
        )
        for place, kind in types.items()
    }


def of_listings() -> Mapping[Place, Ours]:
    """What comes with the adapters; no database and no network is asked."""
    held: dict[Place, Ours] = {}
    for provider in providers():
        one = catalogue(provider)
        for region, name in {(region, name) for region, name, _ in one.listed}:
            markets = {market: one.listed.get((region, name, market)) for market in Market}
            held[provider, region, name] = Ours(
                type=one.types[name],
                prices={market: frozenset({price}) for market, price in markets.items() if price is not None},
                source=f"catalogue of {one.price_as_of:%Y-%m-%d}",
            )
    return held


def _options(arguments: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="gpulease-server prices",
        description="Compare the prices and facts of offerings with a table of prices.",
        epilog="Exit codes: 0 nothing differs, 1 something does, 2 cannot compare. docs/prices.md tells the table's columns.",
    )
    commands = parser.add_subparsers(required=True, metavar="compare")
    command = commands.add_parser("compare", help="print what differs")
    command.add_argument("file", type=Path, metavar="FILE", help="the table, as CSV")
    command.add_argument(
        "--tolerance",
        type=_percent,
        default=Decimal(15),
        metavar="PERCENT",
        help="what a price may be off (default: 15)",
    )
    command.add_argument(
        "--catalogue", action="store_true", help="compare the lists that come with the adapters; needs no database"
    )
    return parser.parse_args(arguments)


def _percent(text: str) -> Decimal:
    try:
        value = Decimal(text)
    except InvalidOperation:
        raise argparse.ArgumentTypeError(f"{text!r} is no number") from None
    if not value.is_finite() or value < 0:
        raise argparse.ArgumentTypeError(f"{text!r} is no percentage")
    return value


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
    lines = [str(one) for one in sorted(result.differences, key=lambda one: (one.place, one.what))]
    summary = f"{result.compared} prices compared, {len(lines)} differences"
    left_out = (
        f"not compared: {result.unknown} types in regions that are not offered here, "
        f"on-demand prices of {result.doubtful} rows that the table doubts"
    )
    return "\n".join([*lines, summary, left_out, ""])
