"""Turns of tenants at the job of budgets, and which of a tenant's leases and budgets it looks at next.

Every statement is about one tenant and a bounded number of rows, so that a large tenant delays the others by little.
"""

import json
from collections.abc import Mapping
from typing import Any

from sqlalchemy import text

from app.db.core.prepared import Bound
from app.domain.budgets import MOST_OF_KEY, PREFIX

LINE = text(
    f"""
    SELECT b.tenant_id, b.width, coalesce(t.positions, CAST('{{}}' AS jsonb)) AS positions
    FROM (SELECT tenant_id, count(*) FILTER (WHERE key_id IS NULL) + {MOST_OF_KEY} AS width FROM budget GROUP BY 1) b
    LEFT JOIN budget_turn t USING (tenant_id) ORDER BY t.taken_at NULLS FIRST, b.tenant_id
    """
)
"""Tenants with budgets, least recently served first: (tenant_id, width, positions). `width`: budgets of a lease, at most."""

SHORT = text("SET LOCAL statement_timeout = '10s'")
"""First statement of each transaction of a turn."""

_TAKE = text(
    """
    INSERT INTO budget_turn (tenant_id, taken_at) VALUES (:tenant_id, now())
    ON CONFLICT (tenant_id) DO UPDATE SET taken_at = excluded.taken_at
    """
)
_MOVE = text(
    """
    UPDATE budget_turn SET positions = positions || CAST(:positions AS jsonb) WHERE tenant_id = :tenant_id
    """
)


def take(tenant_id: str) -> Bound[Any]:
    """Puts the tenant at the end of the line, before its work, so that work that fails delays nobody else."""
    return Bound(_TAKE, {"tenant_id": tenant_id})


def move(tenant_id: str, positions: Mapping[str, str]) -> Bound[Any]:
    """Notes where lanes go on."""
    return Bound(_MOVE, {"tenant_id": tenant_id, "positions": json.dumps(dict(positions))})


# --- lanes of leases: (id, position). The position of the last row is where the next look begins -----------

_OF_TENANT = "l.tenant_id = :tenant_id AND l.ended_at IS NULL"
_CHANGED = text(
    f"""
    SELECT l.id, CAST(l.updated_at AS text) || ' ' || l.id AS position,
        CAST(least(l.updated_at, now() - interval '5 seconds') AS text) || ' ' AS again
    FROM lease l WHERE {_OF_TENANT}
      AND (l.updated_at, l.id) > (CAST(left(:after, -1 - length(substring(:after FROM '[^ ]*$'))) AS timestamptz),
                                  substring(:after FROM '[^ ]*$'))
    ORDER BY l.updated_at, l.id LIMIT :most
    """
)
_OVERDUE = text(
    f"""
    SELECT l.id, l.id AS position, '' AS again FROM lease l
    WHERE {_OF_TENANT} AND l.rate_per_hour IS NOT NULL AND least(l.expires_at, l.cost_reached_at) < now() AND l.id > :after
    ORDER BY l.id LIMIT :most
    """
)
_EVERY = text(
    f"SELECT l.id, l.id AS position, '' AS again FROM lease l WHERE {_OF_TENANT} AND l.id > :after ORDER BY l.id LIMIT :most"
)

LANES = {"changed": "-infinity ", "overdue": "", "every": ""}
"""The first position of each. `changed`: leases that were written since the last look. `overdue`: leases that are billed
beyond their end, which always cost more than they hold. `every`: all, in turn, since a lease that waits holds too much
and one may have been missed. None of them waits for another one."""


def leases(lane: str, tenant_id: str, after: str | None, most: int) -> Bound[Any]:
    """Leases of a lane after a position: (id, position, again). `again`: the next position where fewer than `most` are left.

    A transaction that is open while the lane passes is missed. The lane `changed` therefore looks at the last five
    seconds again, and `every` finds what is older.
    """
    parameters = {"tenant_id": tenant_id, "after": LANES[lane] if after is None else after, "most": most}
    if lane == "changed":
        return Bound(_CHANGED, parameters)
    if lane == "overdue":
        return Bound(_OVERDUE, parameters)
    return Bound(_EVERY, parameters)


# --- budgets ----------------------------------------------------------------------------------------------

_QUOTA = f"JOIN quota q ON q.tenant_id = b.tenant_id AND q.resource = '{PREFIX}' || b.id"
_PAGE = "b.tenant_id = :tenant_id AND b.id > :after"
_NEAR = text(
    f"""
    SELECT b.id FROM budget b {_QUOTA} WHERE {_PAGE} AND EXISTS (
        SELECT FROM jsonb_array_elements_text(b.thresholds) t
        WHERE CAST(t AS int) > b.threshold_told AND (q.used + q.spent) * 100 >= b.amount * CAST(t AS int))
    ORDER BY b.id LIMIT :most
    """
)
_EXCEEDED = text(
    f"""
    SELECT b.id FROM budget b {_QUOTA}
    WHERE {_PAGE} AND b.when_exceeded = 'end' AND q.used + q.spent > b.amount AND EXISTS (
        SELECT FROM quota_claim c JOIN lease l ON l.id = c.lease_id
        WHERE c.tenant_id = q.tenant_id AND c.resource = q.resource AND l.desired = 'run' AND l.ended_at IS NULL)
    ORDER BY b.id LIMIT :most
    """
)


def near_threshold(tenant_id: str, after: str, most: int) -> Bound[Any]:
    """(id) of budgets of which spent and committed amounts reach a threshold without an event."""
    return Bound(_NEAR, {"tenant_id": tenant_id, "after": after, "most": most})


def exceeded(tenant_id: str, after: str, most: int) -> Bound[Any]:
    """(id) of budgets with the action `end` that hold more than their amount, while a lease is left to end."""
    return Bound(_EXCEEDED, {"tenant_id": tenant_id, "after": after, "most": most})
