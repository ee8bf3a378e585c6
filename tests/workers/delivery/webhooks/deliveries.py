"""Webhooks, events for them, and their deliveries, made and tried."""

import ssl
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from sqlalchemy import select, text

from app.db.core.ids import new_id
from app.db.events import events
from app.db.events import webhooks as statements
from app.db.schema.tables import event, webhook_delivery
from app.domain.webhooks.signature import secret_text
from tests.db.events.test_events import sequence
from tests.db.store import Store
from tests.domain.event_samples import sample
from workers.delivery.sender import Sender
from workers.delivery.webhooks import Lanes, fan_out

SECRET = secret_text(b"1" * 32)
TLS = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
"""Unused: the receivers speak http. Loading the usual authorities for each would be most of what these tests cost."""


def make(store: Store, url: str, **values: Any) -> str:
    """A webhook of the store's tenant."""
    webhook_id = new_id("webhook")
    owner = {"tenant_id": store.tenant_id}
    store.run(statements.add({"id": webhook_id, **owner, "url": url, **values}))
    store.run(statements.add_secret({"id": new_id("whsec"), "webhook_id": webhook_id, **owner, "secret": SECRET}))
    return webhook_id


def tell(store: Store, *types: str) -> list[str]:
    """Numbered events of the store's tenant, and their ids."""
    for name in types:
        store.run(events.append(store.tenant_id, events.NewEvent(sample(name))))
    sequence(store)
    newest = select(event.c.id).order_by(event.c.sequence.desc()).limit(len(types))
    return [row.id for row in reversed(store.all(newest))]


def lanes(store: Store, *, threads: int = 4, seconds: float = 5.0, dashboard: str | None = None) -> Lanes:
    sender = Sender(local=True, seconds=seconds, tls=TLS)
    return Lanes(store.database, sender, threads=threads, stopping=threading.Event(), dashboard=dashboard)


def deliver(store: Store, **options: Any) -> None:
    """Makes deliveries and tries all that are due."""
    fan_out(store.database)
    made = lanes(store, **options)
    while made.run_one():
        pass


def log(store: Store, webhook_id: str) -> list[Any]:
    found = select(webhook_delivery).where(webhook_delivery.c.webhook_id == webhook_id)
    return store.all(found.order_by(webhook_delivery.c.row_id))


def pass_time(store: Store, interval: str) -> None:
    """As if it were so much later."""
    for column in ("next_try_at", "last_try_at", "gives_up_at", "created_at"):
        store.run(text(f"UPDATE webhook_delivery SET {column} = {column} - interval '{interval}'"))
    for column in ("next_due", "waits_until", "held_until"):
        store.run(text(f"UPDATE webhook SET {column} = {column} - interval '{interval}'"))
    store.run(text(f"UPDATE webhook_secret SET valid_until = valid_until - interval '{interval}'"))


@contextmanager
def running(*all_lanes: Lanes) -> Iterator[None]:
    threads = [thread for one in all_lanes for thread in one.start()]
    try:
        yield
    finally:
        for one in all_lanes:
            one._stopping.set()
        for thread in threads:
            thread.join(20)
    assert not any(thread.is_alive() for thread in threads)
