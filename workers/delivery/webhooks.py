"""Webhooks: events become deliveries, and each webhook has a lane in which one worker at a time delivers in order.

A lane's thread is lent for a few seconds. Receivers that are slow have at most half of the threads, and so has a tenant:
nobody waits for them.
"""

import random
import threading
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, timedelta
from typing import Any
from uuid import UUID, uuid4

import structlog
from sqlalchemy import Connection, Row
from sqlalchemy.exc import DBAPIError

from app.db.core.ids import new_id
from app.db.events import reads
from app.db.events import webhook_lanes as statements
from app.db.tenancy import audit
from app.domain.list_filters import EventFilter
from app.domain.webhooks.formats import WebhookMessage, render
from app.domain.webhooks.retries import LASTS, Outcome, pause
from workers.delivery.sender import Sender
from workers.runtime.database import WorkerDatabase, is_outage
from workers.runtime.loop import Loop

log = structlog.get_logger(__name__)

HOLD = timedelta(seconds=60)
"""A lane whose process died is taken over after so long."""

_IDLE_SECONDS = 0.5
_BEHIND = 200
_EVENTS = 500
_TURN_SECONDS = 5.0
_SLOW_SECONDS = 2.0
_SHARE = 2
_GAVE_UP = "given up: for three days the receiver took nothing"


def fan_out(database: WorkerDatabase) -> int:
    """Makes deliveries of new events. Answers how many. Safe beside other processes that do the same.

    What PostgreSQL refuses for one webhook delays this webhook alone.
    """
    count = 0
    for row in database.all(statements.behind(_BEHIND)):
        try:
            count += _fan_out_to(database, row.id)
        except DBAPIError as error:
            if is_outage(error):
                raise
            log.warning("no deliveries made", webhook=row.id, error=str(error.orig).partition("\n")[0])
    return count


def _fan_out_to(database: WorkerDatabase, webhook_id: str) -> int:
    with database.begin() as connection:
        mine = connection.execute(statements.lock_position(webhook_id)).first()
        if mine is None:
            return 0
        criteria = EventFilter(tenant_id=mine.tenant_id)
        events = connection.execute(reads.numbered(after=mine.position, limit=_EVENTS, criteria=criteria)).all()
        if not events:
            return 0
        # an event may get its number long after its time, and after the webhook was created
        since = [row for row in events if row.created_at >= mine.created_at]
        chosen = [row for row in since if mine.event_types is None or row.type in mine.event_types]
        if chosen:
            connection.execute(statements.add([_delivery(webhook_id, row) for row in chosen]))
        connection.execute(statements.move_position(webhook_id, events[-1].sequence, more=bool(chosen)))
    return len(chosen)


def _delivery(webhook_id: str, row: Row[Any]) -> dict[str, Any]:
    about = {"tenant_id": row.tenant_id, "sequence": row.sequence}
    if row.lease_id is not None:
        about |= {"lease_id": row.lease_id, "lease_sequence": row.lease_sequence}
    return {
        "id": new_id("delivery"),
        "webhook_id": webhook_id,
        "tenant_id": row.tenant_id,
        "event_id": row.id,
        "sequence": row.sequence,
        "event_type": row.type,
        "event_at": row.created_at,
        "about": {**about, **row.data},
        "gives_up_at": row.created_at + LASTS,
    }


@dataclass(frozen=True, slots=True)
class _Lane:
    webhook_id: str
    tenant_id: str
    slow: bool
    claim_id: UUID


class Lanes:
    """Threads that deliver until `stopping` is set. Only one of those without work looks for it, and makes deliveries.

    `dashboard`: its URL, for links in messages to people.
    """

    def __init__(
        self,
        database: WorkerDatabase,
        sender: Sender,
        *,
        threads: int,
        stopping: threading.Event,
        claim_id: Callable[[], UUID] = uuid4,
        dashboard: str | None = None,
    ) -> None:
        self._database = database
        self._claim_id = claim_id
        self._sender = sender
        self._dashboard = dashboard
        self._threads = threads
        self._most = max(1, threads // _SHARE)
        self._stopping = stopping
        self._looking = threading.Lock()
        self._counting = threading.Lock()
        self._slow = 0
        self._of_tenant: Counter[str] = Counter()

    def start(self) -> list[threading.Thread]:
        """Starts all threads."""
        return [
            Loop(f"webhooks-{number}", self._next, stopping=self._stopping).start() for number in range(self._threads)
        ]

    def run_one(self) -> bool:
        """Takes a lane that is due and delivers for a turn. False: none is due."""
        lane = self._claim()
        if lane is not None:
            self._use(lane)
        return lane is not None

    def _next(self) -> None:
        with self._looking:
            fan_out(self._database)
            lane = self._claim()
            if lane is None:
                self._stopping.wait(_IDLE_SECONDS)
                return
        self._use(lane)

    def _claim(self) -> _Lane | None:
        claim_id = self._claim_id()
        with self._counting:
            full = [tenant for tenant, count in self._of_tenant.items() if count >= self._most]
            row = self._database.first(statements.claim(claim_id, HOLD, slow_too=self._slow < self._most, not_of=full))
            if row is None:
                return None
            self._slow += row.slow
            self._of_tenant[row.tenant_id] += 1
        return _Lane(row.id, row.tenant_id, row.slow, claim_id)

    def _use(self, lane: _Lane) -> None:
        try:
            self._deliver(lane)
        finally:
            with self._counting:
                self._slow -= lane.slow
                self._of_tenant[lane.tenant_id] -= 1

    def _deliver(self, lane: _Lane) -> None:
        """What is due, in order, until the turn is over."""
        began = time.monotonic()
        while not self._stopping.is_set() and time.monotonic() - began < _TURN_SECONDS and self._deliver_next(lane):
            pass
        with self._database.begin() as connection:
            if connection.execute(statements.lock_lane(lane.webhook_id, lane.claim_id)).first() is not None:
                connection.execute(statements.give_back(lane.webhook_id, lane.claim_id))

    def _deliver_next(self, lane: _Lane) -> bool:
        """Whether the lane may go on."""
        ours = self._database.first(statements.keep(lane.webhook_id, lane.claim_id, HOLD))
        row = self._database.first(statements.next_delivery(lane.webhook_id)) if ours is not None else None
        if ours is None or row is None:
            return False
        secrets = [row.secret for row in self._database.all(statements.secrets(lane.webhook_id))]
        at = row.event_at.astimezone(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
        message = WebhookMessage(
            id=row.event_id,
            type=row.event_type,
            created_at=at,
            about=row.about,
            sent_at=int(row.now),
            lease_name=row.lease_name,
            dashboard=self._dashboard,
        )
        request = render(ours.format, message, secrets)
        began = time.monotonic()
        outcome = self._sender.send(ours.url, {**request.headers, "Content-Type": request.media_type}, request.body)
        seconds = time.monotonic() - began
        with self._database.begin() as connection:
            connection.execute(statements.lock_webhook(lane.webhook_id))
            self._write(connection, lane, row, outcome)
            slow = seconds > _SLOW_SECONDS
            connection.execute(statements.note_speed(lane.webhook_id, lane.claim_id, slow=slow))
        about = {"webhook": lane.webhook_id, "delivery": row.id, "status": outcome.status, "error": outcome.error}
        log.debug("webhook tried", **about, seconds=round(seconds, 3))
        return True

    def _write(self, connection: Connection, lane: _Lane, row: Row[Any], outcome: Outcome) -> None:
        if outcome.delivered and outcome.status is not None:
            connection.execute(statements.delivered(row.id, outcome.status))
            return
        error = outcome.error or ""
        if outcome.gone:
            connection.execute(statements.failed(row.id, outcome.status, error, timedelta()))
            self._disable(connection, lane)
            return
        rest = max(pause(row.tries + 1, random.random()), outcome.retry_after)  # noqa: S311 - spreads tries, guards nothing
        # a pause of the receiver is the lane's alone: whatever ends it, the message that caused it goes first again
        own = timedelta() if outcome.away else rest
        connection.execute(statements.failed(row.id, outcome.status, error, own))
        if outcome.away:
            connection.execute(statements.give_up_old(lane.webhook_id, _GAVE_UP))
            connection.execute(statements.wait(lane.webhook_id, lane.claim_id, rest))

    def _disable(self, connection: Connection, lane: _Lane) -> None:
        disabled = connection.execute(statements.disable(lane.webhook_id, "gone")).first()
        if disabled is not None:
            log.warning("webhook disabled", webhook=lane.webhook_id, tenant_id=lane.tenant_id)
            connection.execute(audit.append(_audit_entry(disabled)))


def _audit_entry(row: Row[Any]) -> dict[str, Any]:
    return {
        "id": new_id("audit"),
        "tenant_id": row.tenant_id,
        "principal": "system",
        "role": "system",
        "action": "webhook.disable",
        "target": row.id,
        "before": {"enabled": True},
        "after": {"enabled": False, "disabled_reason": "gone"},
    }
