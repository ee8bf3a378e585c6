"""Values for `transitions.write` on the spend cap of a lease: what follows from a new rate, a closed one, and a new cap."""

from collections.abc import Mapping
from typing import Any

from sqlalchemy import ColumnElement, bindparam, func

from app.db.core.sql import Money
from app.db.leases import billing
from app.db.leases.transitions import WAKE
from app.db.schema.tables import lease

CAP_REACHED = lease.c.cost_reached_at <= func.now()
"""Guard: nobody has raised the spend cap meanwhile, and the price did not fall."""

_COST_CLOSED = lease.c.cost_closed + bindparam("cost", type_=Money)


def rate_begins(since: ColumnElement[Any]) -> Mapping[str, ColumnElement[Any]]:
    """A rate applies since then. Parameters: rate (USD an hour), and cost (USD to close)."""
    rate = bindparam("rate", type_=Money)
    return {
        "rate_since": since,
        "cost_closed": _COST_CLOSED,
        "cost_reached_at": billing.cost_reached_at(lease.c.max_cost, _COST_CLOSED, rate, since),
    }


CLOSED: Mapping[str, ColumnElement[Any]] = {
    "cost_closed": _COST_CLOSED,
    "cost_reached_at": billing.cap_used_up_at(lease, _COST_CLOSED),
}
"""An attempt's billing has ended. Parameter: cost (USD that are not closed yet)."""

UNBILLED: Mapping[str, None] = dict.fromkeys(
    ("rate_per_hour", "rate_since", "disk_rate_per_hour", "address_rate_per_hour")
)
"""Nothing is billed now."""

CAP_CHANGES: Mapping[str, Any] = {
    "cost_reached_at": billing.cost_reached_at(
        bindparam("cap", type_=Money), lease.c.cost_closed, lease.c.rate_per_hour, lease.c.rate_since
    ),
    "cap_told": False,
    **WAKE,
}
"""What follows from a new `max_cost`. Parameter: cap (USD; None: no cap)."""
