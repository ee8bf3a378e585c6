"""Lanes and their threads: nobody waits for a receiver that is slow, or for a process that died."""

import threading
from datetime import timedelta

import pytest

from app.db.events import webhooks
from app.db.schema.tables import webhook
from app.local.waiting import wait_until
from tests.db.store import Store, together
from tests.harness.databases import end_connections
from tests.workers.delivery.webhooks.deliveries import TLS, deliver, lanes, log, make, pass_time, running, tell
from tests.workers.receiver import Receiver, receiving
from workers.delivery.sender import Sender
from workers.delivery.webhooks import Lanes, fan_out
from workers.runtime.database import WorkerDatabase


def test_each_event_is_delivered_once_where_many_processes_make_deliveries(store: Store, receiver: Receiver) -> None:
    webhook_id = make(store, receiver.url)
    ids = tell(store, *["lease.updated"] * 30)
    together(6, lambda _: fan_out(store.database))
    both = [lanes(store, threads=2), lanes(store, threads=2)]
    with running(*both):
        receiver.wait_for(30)
        ids += tell(store, *["lease.updated"] * 5)
        receiver.wait_for(35)
    assert receiver.ids == ids
    assert [row.event_id for row in log(store, webhook_id)] == ids


def test_slow_receivers_keep_nobody_elses_messages_waiting(store: Store, receiver: Receiver) -> None:
    """Six webhooks whose receiver hangs, of one tenant, and one of another; four threads."""
    with receiving() as slow:
        slow.answer = slow.hang
        for _ in range(6):
            make(store, slow.url)
        tell(store, "lease.queued")
        store.tenant_id = store.tenant()
        make(store, receiver.url)
        with running(lanes(store, threads=4, seconds=30.0)):
            slow.wait_for(2)
            ids = tell(store, "lease.active", "lease.failed")
            receiver.wait_for(2)
            assert len(slow.got) == 2
            slow.release.set()
        assert receiver.ids == ids


def test_known_slow_receivers_of_many_tenants_have_half_of_the_threads(store: Store, receiver: Receiver) -> None:
    with receiving() as slow:
        slow.answer = slow.hang
        for _ in range(4):
            store.tenant_id = store.tenant()
            make(store, slow.url, slow=True)
            tell(store, "lease.queued")
        store.tenant_id = store.tenant()
        quick = make(store, receiver.url, slow=True)
        store.write(webhook, quick, slow=False)
        with running(lanes(store, threads=4, seconds=30.0)):
            slow.wait_for(2)
            ids = tell(store, "lease.active")
            receiver.wait_for(1)
            assert len(slow.got) == 2
            slow.release.set()
        assert receiver.ids == ids


def test_an_answer_that_takes_too_long_is_none_and_makes_the_webhook_slow(store: Store, receiver: Receiver) -> None:
    receiver.answer = receiver.hang
    webhook_id = make(store, receiver.url)
    tell(store, "lease.active")
    deliver(store, seconds=2.2)
    (row,) = log(store, webhook_id)
    assert (row.state, row.status, row.error) == ("pending", None, "no answer within 2.2 seconds")
    assert store.row(webhook, webhook_id).slow
    receiver.release.set()
    pass_time(store, "10 seconds")
    deliver(store)
    assert not store.row(webhook, webhook_id).slow


@pytest.mark.parametrize("status", [204, 400, 410, 503])
def test_a_try_and_a_replay_do_not_wait_in_a_circle(store: Store, receiver: Receiver, status: int) -> None:
    """The API locks the webhook, then writes the delivery that has just been tried."""
    webhook_id = make(store, receiver.url)
    tell(store, "lease.active")
    fan_out(store.database)
    (row,) = log(store, webhook_id)
    receiver.answer = receiver.hang_with(status)
    trying = threading.Thread(target=lanes(store, seconds=30.0).run_one)
    with store.database.begin() as replay:
        trying.start()
        receiver.wait_for(1)
        replay.execute(webhooks.get(webhook_id, within=store.tenant_id, lock=True))
        receiver.release.set()
        store.await_lock()
        replay.execute(webhooks.again(webhook_id, row.id, timedelta(days=3), within=store.tenant_id))
    trying.join(30)
    assert log(store, webhook_id)[0].tries == 1


def test_a_lane_whose_process_died_is_taken_over(store: Store, receiver: Receiver) -> None:
    webhook_id = make(store, receiver.url)
    ids = tell(store, "lease.active")
    fan_out(store.database)
    assert lanes(store)._claim() is not None
    assert not lanes(store).run_one()
    pass_time(store, "61 seconds")
    deliver(store)
    assert receiver.ids == ids
    assert store.row(webhook, webhook_id).claim_id is None


def test_threads_survive_a_database_that_hangs_up(store: Store, receiver: Receiver, database_url: str) -> None:
    webhook_id = make(store, receiver.url)
    ids = tell(store, "lease.active")
    deliverers = WorkerDatabase(database_url, pool_size=4)
    sender = Sender(local=True, seconds=5.0, tls=TLS)
    mine = Lanes(deliverers, sender, threads=2, stopping=threading.Event())
    with running(mine):
        receiver.wait_for(1)
        assert wait_until(lambda: store.row(webhook, webhook_id).next_due is None, timeout=10)
        store.database.close()
        end_connections(database_url)
        ids += tell(store, "lease.failed")
        receiver.wait_for(2)
    deliverers.close()
    assert receiver.ids == ids
