"""Collects what operators must know, and sends it until each receiver has accepted it."""

import random
from collections.abc import Sequence
from typing import Any

import structlog
from sqlalchemy import Row

from app.db.core.ids import new_id
from app.db.operations import operator_messages as statements
from app.domain.operator_messages import MessageKind, body, exceeds_budget, subject
from app.domain.webhooks.retries import pause
from app.settings.settings import dashboard_url
from workers.delivery.notifier import Receiver, receivers
from workers.runtime.database import WorkerDatabase
from workers.runtime.runtime import Runtime

log = structlog.get_logger(__name__)

_TOGETHER = 30
"""Messages in one notification."""


def tell_operators(runtime: Runtime, _account: str, _region: str) -> int:
    """Collects and sends. Returns the number of messages that were due. Does nothing without receivers."""
    configured = receivers(runtime.settings)
    if not configured:
        return 0
    collect(runtime.database, runtime.settings.notify_kinds)
    dashboard = dashboard_url(runtime.settings)
    return send(runtime.database, configured, installation=runtime.installation.id, dashboard=dashboard)


def collect(database: WorkerDatabase, kinds: Sequence[str]) -> None:
    """Stores a message for each new cause of these kinds."""
    for kind, statement in statements.COLLECTIONS.items():
        if kind in kinds:
            database.run(statement)
    if MessageKind.BUDGET in kinds:
        _collect_budgets(database)


def _collect_budgets(database: WorkerDatabase) -> None:
    """Events since the last run, one message for each tenant. From the first run on, not of the time before."""
    with database.begin() as connection:
        at = connection.execute(statements.position()).one()
        if at.told_until is not None and at.newest > at.told_until:
            rows = connection.execute(*statements.budget_events(after=at.told_until, until=at.newest)).all()
            of_tenant: dict[str, list[Row[Any]]] = {}
            for row in rows:
                if exceeds_budget(row.data):
                    of_tenant.setdefault(row.tenant_id, []).append(row)
            if of_tenant:
                connection.execute(statements.add([_budgets(some) for some in of_tenant.values()]))
        connection.execute(statements.move_position(at.newest))


def _budgets(rows: Sequence[Row[Any]]) -> dict[str, Any]:
    """One message for all events of a tenant: its budgets delay no message about another one."""
    first, *others = rows
    what = f"{len(rows)} budgets of the tenant {{}} are" if others else "A budget of the tenant {} is"
    text = f"{what.format(first.tenant_name)} exceeded."
    return {"id": new_id("message"), "cause": f"budget:{first.id}", "kind": MessageKind.BUDGET, "text": text}


def send(
    database: WorkerDatabase, targets: Sequence[Receiver], *, installation: str, dashboard: str | None = None
) -> int:
    """Sends what is due, in one notification for each receiver. Returns the number of messages.

    A receiver that has accepted a message does not get it again, unless the process dies right after the call.
    """
    due = database.all(statements.due(_TOGETHER))
    sent_to = {row.id: set(row.sent_to) for row in due}
    for receiver in targets:
        missing = [row for row in due if receiver.id not in sent_to[row.id]]
        texts = [row.text for row in missing]
        if not texts:
            continue
        if receiver.send(subject(texts, installation), body(texts, dashboard)):
            for row in missing:
                sent_to[row.id].add(receiver.id)
        else:
            log.warning("operators not notified", receiver=receiver.id, messages=len(texts))
    every = {receiver.id for receiver in targets}
    for row in due:
        accepted = sorted(sent_to[row.id])
        if every <= sent_to[row.id]:
            database.run(statements.sent(row.id, accepted))
            continue
        rest = None if row.overdue else pause(row.tries + 1, random.random())  # noqa: S311 - spreads tries, guards nothing
        database.run(statements.failed(row.id, accepted, rest))
    return len(due)
