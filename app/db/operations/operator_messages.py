"""Statements of messages to operators: what there is to report, what is due, and to whom it was sent.

Each message has a cause, which is reported once: to collect the same causes again adds nothing.
"""

from collections.abc import Sequence
from datetime import timedelta
from typing import Any

from sqlalchemy import Executable, Insert, TextClause, Update, func, select, text, update
from sqlalchemy.dialects.postgresql import insert

from app.db.core.prepared import Bound
from app.db.core.sql import AnySelect
from app.db.operations.active_brakes import CORDONED_OFFERINGS
from app.db.schema.tables import installation, operator_message

_ADD = "INSERT INTO operator_message (id, cause, kind, text) SELECT new_typeid('message'), cause, '{}', said FROM ({}) found"
_ONCE = "ON CONFLICT (cause) DO NOTHING"


def _collect(kind: str, query: str) -> TextClause:
    return text(f"{_ADD.format(kind, query)} {_ONCE}")


ORPHANS = _collect(
    "orphan",
    """
    SELECT 'orphan:' || id AS cause, 'A VM belongs to no lease (' || cause || '): ' || instance_id || ', '
        || instance_type || ' in ' || account || '/' || region || '.' AS said
    FROM orphan
    WHERE state IN ('seen', 'ending')
        AND (cause IN ('copied_tags', 'lost_row') OR first_seen_at < now() - interval '3 minutes')
    ORDER BY first_seen_at LIMIT 500
    """,
)
"""Garbage collection ends most orphans within a cycle, so only those are reported that stay or need a person."""

BRAKES = _collect(
    "brake",
    f"""
    SELECT 'hold:' || coalesce(hold ->> 'since', '') AS cause,
        'The installation is on hold: ' || coalesce(hold ->> 'reason', 'no reason is known') || '.' AS said
    FROM installation WHERE hold IS NOT NULL
    UNION ALL
    SELECT 'launches_stopped:' || coalesce(launches_stopped ->> 'since', ''), 'An operator has stopped all launches.'
    FROM installation WHERE launches_stopped IS NOT NULL
    UNION ALL
    SELECT 'cordoned:' || name || ':' || coalesce(cordoned ->> 'since', ''),
        'An operator has stopped launches at the account ' || name || '.'
    FROM account WHERE cordoned IS NOT NULL
    UNION ALL
    SELECT 'cordoned:' || account || ':' || region || ':' || (cordon ->> 'since'),
        'An operator has stopped launches in ' || region || ' of the account ' || account || ': ' || {CORDONED_OFFERINGS} || '.'
    FROM account_region, jsonb_array_elements(cordons) AS cordon
    """,
)

RECONCILIATION = _collect(
    "reconciliation",
    """
    SELECT 'reconciliation:' || id AS cause, provider || ' charged ' || round(unlisted_cost, 2) || ' USD in '
        || to_char(month, 'YYYY-MM') || ' for ' || unlisted_resources
        || ' resources of this installation that belong to no lease.' AS said
    FROM invoice_import
    WHERE unlisted_resources > 0 AND replaced_at IS NULL AND imported_at > now() - interval '7 days'
    """,
)


def position() -> AnySelect:
    """(told_until, newest): numbers of events. `told_until` is NULL before the first run. Locks the row."""
    told_until, newest = installation.c.operators_told_until, installation.c.event_sequence
    return select(told_until.label("told_until"), newest.label("newest")).with_for_update()


_BUDGETS = text(
    """
    SELECT e.id, e.data, e.tenant_id, t.name AS tenant_name
    FROM event e JOIN tenant t ON t.id = e.tenant_id
    WHERE e.type = 'budget.threshold' AND e.sequence > :after AND e.sequence <= :until ORDER BY e.sequence
    """
)


def budget_events(*, after: int, until: int) -> Bound[TextClause]:
    """(id, data, tenant_id, tenant_name) of events of budgets, in their order."""
    return Bound(_BUDGETS, {"after": after, "until": until})


def move_position(number: int) -> Update:
    """Runs in the transaction of `position`."""
    return update(installation).values(operators_told_until=number)


def add(values: Sequence[dict[str, Any]]) -> Insert:
    """`values`: id, cause, kind, text."""
    return insert(operator_message).values(list(values)).on_conflict_do_nothing()


def due(limit: int) -> AnySelect:
    """(id, text, tries, sent_to, overdue) of messages to send now, the oldest first. `overdue`: given up if it fails."""
    columns = (operator_message.c[name] for name in ("id", "text", "tries", "sent_to"))
    overdue = (operator_message.c.created_at < func.now() - _LASTS).label("overdue")
    return (
        select(*columns, overdue)
        .where(operator_message.c.next_try_at <= func.now())
        .order_by(operator_message.c.created_at, operator_message.c.id)
        .limit(limit)
    )


_LASTS = timedelta(days=3)


def sent(message_id: str, sent_to: Sequence[str]) -> Update:
    """All receivers have accepted the message."""
    return _tried(message_id, sent_to).values(sent_at=func.now(), next_try_at=None)


def failed(message_id: str, sent_to: Sequence[str], pause: timedelta | None) -> Update:
    """A receiver did not accept it. `pause` None: it is given up."""
    return _tried(message_id, sent_to).values(next_try_at=None if pause is None else func.now() + pause)


def _tried(message_id: str, sent_to: Sequence[str]) -> Update:
    values = {"tries": operator_message.c.tries + 1, "sent_to": list(sent_to)}
    return update(operator_message).where(operator_message.c.id == message_id).values(**values)


COLLECTIONS: dict[str, Executable] = {"orphan": ORPHANS, "brake": BRAKES, "reconciliation": RECONCILIATION}
"""By kind. Budgets are events, and have a position instead."""
