"""Prices of disks and addresses: those of the adapter's list until the provider returns its own."""

from collections.abc import Iterator, Mapping
from typing import Any

import structlog
from sqlalchemy import Connection

from app.db.fleet import offerings
from app.db.fleet.offerings import EVERY_TYPE
from app.domain.rates import Part
from workers.providers import registry
from workers.providers.errors import ProviderError
from workers.providers.part_price_list import in_region
from workers.providers.types import ADDRESS, PartPrice
from workers.runtime.runtime import Runtime

log = structlog.get_logger(__name__)


def save_listed(connection: Connection, runtime: Runtime, account: str, region: str) -> None:
    """Writes the prices of the adapter's list, where no live price is known."""
    listed = in_region(registry.part_prices(runtime.accounts.provider_name(account)), region)
    _save(connection, runtime, account, region, listed, live=False)


def read_live(runtime: Runtime, account: str, region: str) -> Mapping[str, PartPrice]:
    """Today's prices by kind; none when the provider could not be asked. Makes calls."""
    try:
        return runtime.accounts.provider(account).part_prices(region)
    except ProviderError as error:
        log.warning("no live prices of disks", account=account, region=region, code=error.code, error=error.message)
        return {}


def save_live(
    connection: Connection, runtime: Runtime, account: str, region: str, prices: Mapping[str, PartPrice]
) -> None:
    """Writes what `read_live` returned."""
    _save(connection, runtime, account, region, prices, live=True)


def _save(
    connection: Connection,
    runtime: Runtime,
    account: str,
    region: str,
    prices: Mapping[str, PartPrice],
    *,
    live: bool,
) -> None:
    kinds = runtime.accounts.provider(account).disk_kinds()
    rows = [{"account": account, "region": region, "price_live": live, **row} for row in _rows(kinds, prices)]
    if rows:
        connection.execute(offerings.save_part_prices(), rows)


def _rows(kinds: Mapping[str, str], prices: Mapping[str, PartPrice]) -> Iterator[dict[str, Any]]:
    """`kinds`: the kind of disk by instance type."""
    parts = [(Part.DISK, name, kind) for name, kind in sorted(kinds.items())]
    for part, name, kind in (*parts, (Part.ADDRESS, EVERY_TYPE, ADDRESS)):
        price = prices.get(kind)
        if price is not None:
            origin = {"price_as_of": price.as_of, "price_source": price.source}
            yield {"part": str(part), "instance_type": name, "price": price.usd, **origin}
