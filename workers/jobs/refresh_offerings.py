"""Refreshing the offerings: types, zones, prices, service quotas, and a check of the account's credentials."""

from collections.abc import Iterable, Iterator
from typing import Any

import structlog
from sqlalchemy import Connection

from app.db.fleet import accounts, jobs, offerings
from app.domain.offerings import Driver
from workers.jobs import part_prices
from workers.jobs.price_changes import find_price_changes, record_price_changes
from workers.providers.errors import ProviderError
from workers.providers.ports import Provider
from workers.providers.types import Prices, ProviderOffering, ServiceQuota
from workers.runtime.runtime import Runtime

log = structlog.get_logger(__name__)

PRICES = "prices"
"""The kind of job that reads live prices. New offerings bring its next run forward."""


def refresh(runtime: Runtime, account: str, region: str) -> int:
    """Writes the offerings of an account and region. Returns their number. Raises ProviderError.

    An account whose credentials fail is set aside with the reason. The next refresh checks them again.
    """
    runtime.accounts.check_identity(account)
    provider = runtime.accounts.provider(account)
    offered = provider.offered(region)
    limits = _service_quotas(provider, account, region)
    _look_up_images(
        runtime, account, region, {offering.type.gpu.driver for offering in offered if offering.obstacle is None}
    )
    name = runtime.accounts.provider_name(account)
    with runtime.database.begin() as connection:
        connection.execute(offerings.lock_region(account, region))
        before = _known(connection, account, region)
        if offered:
            rows = [_row(account, name, offering) for offering in offered]
            connection.execute(*offerings.save_offerings(rows))
        if _known(connection, account, region) > before:
            connection.execute(*jobs.hurry(PRICES, [(account, region)]))
        connection.execute(offerings.forget_unoffered(account, region))
        connection.execute(accounts.service_quotas(account, region, limits))
        part_prices.save_listed(connection, runtime, account, region)
        changed = find_price_changes(connection, runtime, account, region)
    record_price_changes(runtime, changed)
    runtime.catalogue.forget()
    return len(offered)


def refresh_prices(runtime: Runtime, account: str, region: str) -> int:
    """Writes the provider's current prices. Returns their number, 0 also when the provider could not be asked.

    A price list is a separate service. Its failure sets no account aside, and known prices stay, with their age.
    """
    try:
        prices = runtime.accounts.provider(account).prices(region)
    except ProviderError as error:
        log.warning("no live prices", account=account, region=region, code=error.code, error=error.message)
        return 0
    of_parts = part_prices.read_live(runtime, account, region)
    if prices or of_parts:
        with runtime.database.begin() as connection:
            connection.execute(offerings.lock_region(account, region))
            if prices:
                connection.execute(offerings.save_price(account, region), list(_prices(prices)))
            part_prices.save_live(connection, runtime, account, region, of_parts)
            changed = find_price_changes(connection, runtime, account, region)
        record_price_changes(runtime, changed)
        runtime.catalogue.forget()
    return len(prices)


def _service_quotas(provider: Provider, account: str, region: str) -> list[dict[str, Any]] | None:
    """The account's own limits. None: their service did not answer, which keeps no offering out of the catalogue."""
    try:
        return [_quota(limit) for limit in provider.service_quotas(region)]
    except ProviderError as error:
        log.warning("no service quotas", account=account, region=region, code=error.code, error=error.message)
        return None


def _look_up_images(runtime: Runtime, account: str, region: str, drivers: Iterable[Driver]) -> None:
    """Stores the sizes of all images that leases may boot from, so that quotes and admission know what a disk costs.

    An image that cannot be looked up sets nothing aside here. The launch that needs it does.
    """
    named = [(name, Driver.NVIDIA) for name in runtime.accounts.named_images(account)]
    for name, driver in (*((None, driver) for driver in sorted(drivers)), *named):
        try:
            runtime.accounts.image(account, region, name, driver)
        except ProviderError as error:
            log.warning("image not found", account=account, region=region, image=name, code=error.code)


def _known(connection: Connection, account: str, region: str) -> int:
    return int(connection.execute(offerings.count_offerings(account, region)).scalar_one())


def _prices(prices: Prices) -> Iterator[dict[str, Any]]:
    for (name, market), price in prices.items():
        yield {
            "type": name,
            "in_market": str(market),
            "per_hour": price.per_hour or None,
            "as_of": price.as_of,
            "source": price.source,
        }


def _row(account: str, provider: str, offering: ProviderOffering) -> dict[str, Any]:
    return {
        "account": account,
        "provider": provider,
        "region": offering.region,
        "zone": offering.zone,
        "instance_type": offering.type.name,
        "market": str(offering.market),
        **offerings.type_columns(offering.type),
        "obstacle": None if offering.obstacle is None else str(offering.obstacle),
        "price_per_hour": offering.price_per_hour or None,  # clouds list 0 for a spot VM that they do not sell now
        "price_as_of": offering.price_as_of,
        "price_source": offering.price_source,
        "price_live": offering.price_live,
    }


def _quota(quota: ServiceQuota) -> dict[str, Any]:
    return {"code": quota.code, "name": quota.name, "limit": str(quota.limit), "unit": quota.unit}
