"""Changes of the price at which a running VM is billed, from the live prices of the offerings."""

from collections.abc import Iterable, Sequence
from typing import Any

from sqlalchemy import Connection, Row

from app.db.events.events import NewEvent
from app.db.leases import price_changes
from app.db.leases.transitions import locked
from app.domain.billing import stored_cost
from app.domain.events import LeasePriceChanged
from app.domain.ids import AttemptId, LeaseId
from app.domain.money import format_money
from app.domain.rates import Rate
from app.settings.providers import providers
from workers.runtime.runtime import Runtime


def find_price_changes(connection: Connection, runtime: Runtime, account: str, region: str) -> Sequence[Row[Any]]:
    """The running VMs of a region whose offering has another live price now.

    Only in the markets in which the provider changes the price of running VMs.
    """
    markets = providers()[runtime.accounts.provider_name(account)].repriced_markets
    return connection.execute(price_changes.due(account, region, markets)).all() if markets else []


def record_price_changes(runtime: Runtime, changes: Iterable[Row[Any]]) -> int:
    """Records the new prices of the VMs that `find_price_changes` returned. Returns their number.

    A change applies from the moment at which it is recorded: what is billed until then is never computed again. Doing it
    twice changes nothing, and the next refresh finds what a crash has left out.
    """
    return sum(_record(runtime, LeaseId(row.lease_id), AttemptId(row.attempt_id)) for row in changes)


def _record(runtime: Runtime, lease_id: LeaseId, attempt_id: AttemptId) -> int:
    """One transaction: the change, what the price until now has cost, and the lease's new rate."""
    with runtime.database.begin() as connection:
        connection.execute(*locked([lease_id]))
        return _change(connection, lease_id, attempt_id)


def _change(connection: Connection, lease_id: LeaseId, attempt_id: AttemptId) -> int:
    row = connection.execute(price_changes.billed(attempt_id)).first()
    if row is None or row.new_price == row.price_per_hour:
        return 0
    cost = stored_cost(row.rate_per_hour, row.now - row.rate_since)
    rate = Rate(compute=row.new_price, disk=row.disk_price_per_hour, address=row.address_price_per_hour)
    data = LeasePriceChanged(
        n=row.n,
        price_per_hour=format_money(rate.total),
        previous_price_per_hour=format_money(row.rate_per_hour),
    )
    change = price_changes.record(
        attempt_id=attempt_id,
        tenant_id=row.tenant_id,
        starts_at=row.now,
        price=row.new_price,
        source=row.new_source,
    )
    connection.execute(change)
    connection.execute(price_changes.close_past(attempt_id, cost))
    connection.execute(*price_changes.begin_rate(lease_id, NewEvent(data), cost=cost, rate=rate))
    return 1
