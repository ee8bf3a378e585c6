"""Changes of the price at which a running VM is billed, from the live prices of the offerings."""

from sqlalchemy import Connection

from app.db.events.events import NewEvent
from app.db.leases import price_changes
from app.db.leases.transitions import locked
from app.domain.billing import stored_cost
from app.domain.events import LeasePriceChanged
from app.domain.ids import AttemptId, LeaseId
from app.domain.money import format_money
from app.settings.providers import providers
from workers.runtime import Runtime


def record_price_changes(runtime: Runtime, account: str, region: str) -> int:
    """Records the new price of every running VM whose offering has another live price. Returns their number.

    Only in the markets in which the provider changes the price of running VMs. A change applies from the moment at
    which it is recorded: what is billed until then is never computed again. Doing it twice changes nothing.
    """
    markets = providers()[runtime.accounts.provider_name(account)].repriced_markets
    rows = runtime.database.all(price_changes.due(account, region, markets)) if markets else []
    return sum(_record(runtime, LeaseId(row.lease_id), AttemptId(row.attempt_id)) for row in rows)


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
    data = LeasePriceChanged(
        n=row.n,
        price_per_hour=format_money(row.new_price),
        previous_price_per_hour=format_money(row.price_per_hour),
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
    rate = row.new_price + row.parts
    connection.execute(*price_changes.begin_rate(lease_id, NewEvent(data), cost=cost, rate=rate))
    return 1
