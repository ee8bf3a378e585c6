"""Events arrive at webhooks: in order, signed, again when they did not, and whatever becomes of the webhook."""

import json
from collections.abc import Callable
from datetime import UTC, timedelta
from decimal import Decimal

import pytest
from sqlalchemy import insert, text, update
from standardwebhooks import Webhook, WebhookVerificationError

from app.db.core.ids import new_id
from app.db.events import events
from app.db.events import webhooks as statements
from app.db.operations import purge
from app.db.schema.tables import audit, event, webhook, webhook_delivery, webhook_secret
from app.db.usage import records
from app.domain.usage import record_key
from app.domain.webhooks.retries import LASTS
from app.domain.webhooks.signature import OVERLAP, TEST, secret_text
from app.local.ports import free_port
from tests.db.events.test_events import sequence
from tests.db.store import Store, ago
from tests.db.usage.histories import Billed, add
from tests.domain.event_samples import sample
from tests.workers.delivery.webhooks.deliveries import SECRET, deliver, log, make, pass_time, tell
from tests.workers.receiver import Receiver
from workers.delivery.webhooks import fan_out
from workers.jobs.usage_messages import send_records


def test_a_record_of_use_arrives_as_a_cloudevent_in_the_order_of_the_hours(store: Store, receiver: Receiver) -> None:
    make(store, receiver.url, format="cloudevents", event_types=["usage.hour", "lease.active"])
    now = store.all(text("SELECT date_trunc('hour', now()) AS at"))[0].at
    one = Billed(now - timedelta(hours=2), timedelta(hours=9), Decimal(2))
    attempt_id = add(store, one)
    store.run(text("UPDATE webhook SET created_at = now() - interval '5 hours'"))
    with store.database.begin() as connection:
        hours = {(row.tenant_id, row.starts_at) for row in connection.execute(*records.close(one.began, now)).all()}
        send_records(connection, hours)
    tell(store, "lease.active", "lease.updated")
    deliver(store)
    keys = [record_key(attempt_id, one.began + timedelta(hours=n), 0) for n in range(2)]
    assert receiver.ids[:2] == keys
    assert len(receiver.ids) == 3, "and the event that is selected"
    first = receiver.got[0]
    assert first.headers["content-type"] == "application/cloudevents+json"
    body = Webhook(SECRET).verify(first.body, first.headers)
    assert (body["specversion"], body["id"], body["type"]) == ("1.0", keys[0], "usage.hour")
    assert (body["source"], body["subject"]) == ("gpulease", store.tenant_id)
    assert body["time"] == one.began.astimezone(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
    assert (body["data"]["cost"], body["data"]["gpu_hours"]) == ("2.0", 4)
    assert json.loads(receiver.got[2].body)["data"]["sequence"] > 0


def test_what_happens_arrives_in_order_signed_and_as_it_is_read_elsewhere(store: Store, receiver: Receiver) -> None:
    webhook_id = make(store, f"{receiver.url}?a=b")
    lease_id = store.lease()
    store.run(text(f"UPDATE lease SET events_count = 1 WHERE id = '{lease_id}'"))
    store.run(
        insert(event).values(
            id=new_id("event"),
            tenant_id=store.tenant_id,
            lease_id=lease_id,
            lease_sequence=1,
            type="lease.active",
            data={"n": 1},
        )
    )
    ids = [store.rows(event)[0].id, *tell(store, *["lease.updated"] * 5)]
    deliver(store)
    assert receiver.ids == ids
    first, row = receiver.got[0], store.row(event, ids[0])
    assert first.path == "/hook?a=b"
    assert first.headers["content-type"] == "application/json"
    assert Webhook(SECRET).verify(first.body, first.headers) == {
        "type": "lease.active",
        "timestamp": row.at.isoformat(timespec="milliseconds").replace("+00:00", "Z"),
        "data": {
            "id": row.id,
            "tenant_id": store.tenant_id,
            "sequence": row.sequence,
            "lease_id": lease_id,
            "lease_sequence": 1,
            "n": 1,
        },
    }
    assert {(row.state, row.tries, row.status, row.error) for row in log(store, webhook_id)} == {
        ("delivered", 1, 204, None)
    }


def test_slack_gets_an_unsigned_sentence_in_the_same_lane(store: Store, receiver: Receiver) -> None:
    webhook_id = make(store, receiver.url, format="slack")
    lease_id = store.lease(name="train", events_count=1)
    told = {"id": new_id("event"), "tenant_id": store.tenant_id, "lease_id": lease_id, "lease_sequence": 1}
    store.run(insert(event).values(**told, type="lease.active", data={"n": 1}))
    sequence(store)
    receiver.answer = lambda _: 503
    deliver(store, dashboard="https://gpu.example.org/dashboard/")
    receiver.answer = lambda _: 200
    pass_time(store, "1 hour")
    deliver(store, dashboard="https://gpu.example.org/dashboard/")
    first, second = receiver.got
    assert first.body == second.body
    assert not [name for name in first.headers if name.startswith("webhook-")]
    assert json.loads(first.body)["text"] == "Lease train is ready to use."
    assert f"/dashboard/#/leases/{lease_id}|" in json.loads(first.body)["blocks"][0]["text"]["text"]
    assert [(row.state, row.tries) for row in log(store, webhook_id)] == [("delivered", 2)]


def test_only_wanted_types_of_ones_own_tenant_since_the_webhook_was_made(store: Store, receiver: Receiver) -> None:
    tell(store, "lease.active")
    make(store, receiver.url, event_types=["lease.active", "lease.failed"])
    tell(store, "lease.queued")
    mine, other = tell(store, "lease.active"), store.tenant_id
    store.tenant_id = store.tenant()
    tell(store, "lease.active")
    store.tenant_id = other
    mine += tell(store, "lease.failed", "lease.updated")[:1]
    deliver(store)
    assert receiver.ids == mine


def test_a_position_never_passes_an_event_that_is_not_numbered_yet(store: Store, receiver: Receiver) -> None:
    make(store, receiver.url)
    with store.database.begin() as slow:
        slow.execute(events.append(store.tenant_id, events.NewEvent(sample("lease.queued"))))
        tell(store, "lease.active")
        fan_out(store.database)
    sequence(store)
    deliver(store)
    assert [json.loads(one.body)["type"] for one in receiver.got] == ["lease.active", "lease.queued"]


def test_an_event_from_before_the_webhook_that_is_numbered_after_it_is_not_sent(
    store: Store, receiver: Receiver
) -> None:
    store.run(events.append(store.tenant_id, events.NewEvent(sample("lease.queued"))))
    make(store, receiver.url)
    after = tell(store, "lease.active")
    deliver(store)
    assert receiver.ids == after


def test_nothing_is_lost_while_the_receiver_is_down_for_an_hour_and_the_order_stays(
    store: Store, receiver: Receiver
) -> None:
    there = receiver.url
    webhook_id = make(store, f"http://127.0.0.1:{free_port()}/")
    ids = tell(store, "lease.queued", "lease.active")
    deliver(store)
    for _ in range(12):
        pass_time(store, "5 minutes")
        ids += tell(store, "lease.updated")
        deliver(store)
    rows = log(store, webhook_id)
    assert {row.state for row in rows} == {"pending"}
    assert 3 < rows[0].tries < 13
    assert {row.tries for row in rows[1:]} == {0}
    assert rows[0].error.startswith("ConnectError")
    store.write(webhook, webhook_id, url=there)
    pass_time(store, "80 minutes")
    deliver(store)
    assert receiver.ids == ids


@pytest.mark.parametrize("status", [302, 400, 404, 500])
def test_a_message_that_is_refused_holds_up_no_other_and_comes_again(
    store: Store, receiver: Receiver, status: int
) -> None:
    webhook_id = make(store, receiver.url)
    bad, good = tell(store, "lease.queued", "lease.active")
    receiver.answer = lambda got: status if got.id == bad else 204
    receiver.headers = {"Location": "http://127.0.0.1:1/"}
    deliver(store)
    assert receiver.ids == [bad, good]
    first, second = log(store, webhook_id)
    assert (first.state, first.tries, first.status, second.state) == ("pending", 1, status, "delivered")
    assert first.error.startswith(f"answered {status}")
    assert 3.9 < (first.next_try_at - first.last_try_at).total_seconds() < 6.1
    receiver.answer = lambda _: 200
    deliver(store)
    assert len(receiver.got) == 2
    pass_time(store, "10 seconds")
    deliver(store)
    assert receiver.ids == [bad, good, bad]
    assert receiver.got[2].body == receiver.got[0].body
    assert log(store, webhook_id)[0].state == "delivered"


@pytest.mark.parametrize("status", [429, 502, 503, 504])
def test_a_receiver_that_takes_nothing_is_left_alone_for_a_while(store: Store, receiver: Receiver, status: int) -> None:
    webhook_id = make(store, receiver.url)
    ids = tell(store, "lease.queued", "lease.active")
    receiver.answer = lambda _: status
    deliver(store)
    ids += tell(store, "lease.updated")
    deliver(store)
    assert receiver.ids == ids[:1]
    receiver.answer = lambda _: 200
    pass_time(store, "10 seconds")
    deliver(store)
    assert receiver.ids == ids[:1] + ids
    assert {row.state for row in log(store, webhook_id)} == {"delivered"}


def _test_message(store: Store, webhook_id: str) -> None:
    about = {"id": new_id("delivery"), "webhook_id": webhook_id, "tenant_id": store.tenant_id, "about": {}}
    message = {"event_id": new_id("event"), "event_type": TEST, "gives_up_at": statements.NOW}
    store.run(statements.add_delivery({**about, **message}))
    store.run(statements.hurry(webhook_id, within=None))


def _replay_newest(store: Store, webhook_id: str) -> None:
    store.run(statements.again(webhook_id, log(store, webhook_id)[-1].id, LASTS, within=None))
    store.run(statements.hurry(webhook_id, within=None))


def _disable_and_enable(store: Store, webhook_id: str) -> None:
    store.run(statements.change(webhook_id, {"enabled": False, "disabled_reason": "by_user"}, within=None))
    _enable(store, webhook_id)


def _enable(store: Store, webhook_id: str) -> None:
    store.run(
        statements.change(
            webhook_id, {"enabled": True, "disabled_reason": None, **statements.begin_anew()}, within=None
        )
    )


def _new_url(store: Store, webhook_id: str) -> None:
    store.run(statements.change(webhook_id, statements.at_once(), within=None))


@pytest.mark.parametrize("failures", [1, 5])
@pytest.mark.parametrize("repair", [_test_message, _replay_newest, _disable_and_enable, _new_url])
def test_whatever_ends_the_pause_of_a_receiver_sends_the_oldest_message_first(
    store: Store, receiver: Receiver, repair: Callable[[Store, str], None], failures: int
) -> None:
    webhook_id = make(store, receiver.url)
    receiver.answer = lambda _: 503
    ids = tell(store, "lease.queued", "lease.active", "lease.updated", "lease.released")
    for _ in range(failures):
        deliver(store)
        pass_time(store, "1 hour")
    deliver(store)
    receiver.answer = lambda _: 204
    before = len(receiver.got)
    repair(store, webhook_id)
    deliver(store)
    assert [one.id for one in receiver.got[before:] if one.id in ids] == ids
    assert {row.state for row in log(store, webhook_id)} == {"delivered"}


@pytest.mark.parametrize("status", [429, 503])
def test_no_try_comes_before_the_time_that_the_receiver_names(store: Store, receiver: Receiver, status: int) -> None:
    receiver.answer, receiver.headers = (lambda _: status), {"Retry-After": "600"}
    webhook_id = make(store, receiver.url)
    ids = tell(store, "lease.queued", "lease.active")
    deliver(store)
    pass_time(store, "590 seconds")
    deliver(store)
    assert receiver.ids == ids[:1]
    assert log(store, webhook_id)[0].tries == 1
    receiver.answer, receiver.headers = (lambda _: 204), {}
    pass_time(store, "11 seconds")
    deliver(store)
    assert receiver.ids == ids[:1] + ids


def test_after_three_days_a_delivery_is_given_up_and_shown(store: Store, receiver: Receiver) -> None:
    receiver.answer = lambda _: 503
    webhook_id = make(store, receiver.url)
    tell(store, "lease.queued", "lease.active")
    deliver(store)
    for _ in range(4):
        pass_time(store, "24 hours")
        deliver(store)
    first, second = log(store, webhook_id)
    assert (first.state, first.status, first.error, first.next_try_at) == ("given_up", 503, "answered 503", None)
    assert (second.state, second.next_try_at) == ("given_up", None)
    assert "three days" in second.error
    assert first.ended_at is not None
    assert 4 <= len(receiver.got) <= 5


def test_410_disables_and_is_in_the_audit_trail(store: Store, receiver: Receiver) -> None:
    receiver.answer = lambda _: 410
    webhook_id = make(store, receiver.url)
    ids = tell(store, "lease.queued", "lease.active")
    deliver(store)
    tell(store, "lease.failed")
    deliver(store)
    assert len(receiver.got) == 1
    row = store.row(webhook, webhook_id)
    assert (row.enabled, row.disabled_reason, row.version) == (False, "gone", 2)
    assert [one.state for one in log(store, webhook_id)] == ["pending", "pending"]
    (entry,) = [one for one in store.rows(audit) if one.action == "webhook.disable"]
    assert (entry.tenant_id, entry.target, entry.principal) == (store.tenant_id, webhook_id, "system")
    receiver.answer = lambda _: 204
    _enable(store, webhook_id)
    deliver(store)
    assert receiver.ids[1:] == ids, "the message that was answered with 410 is pending too"


def test_after_a_rotation_both_secrets_sign_for_a_day(store: Store, receiver: Receiver) -> None:
    webhook_id = make(store, receiver.url)
    new = secret_text(b"2" * 32)
    store.run(statements.end_older_secrets(webhook_id, within=None))
    store.run(statements.end_present_secret(webhook_id, OVERLAP, within=None))
    owner = {"webhook_id": webhook_id, "tenant_id": store.tenant_id}
    store.run(statements.add_secret({"id": new_id("whsec"), **owner, "secret": new}))
    for interval, signing in (("23 hours", {SECRET, new}), ("2 hours", {new})):
        pass_time(store, interval)
        tell(store, "lease.active")
        deliver(store)
        got = receiver.got[-1]
        assert len(got.headers["webhook-signature"].split()) == len(signing)
        for secret in (SECRET, new):
            if secret in signing:
                Webhook(secret).verify(got.body, got.headers)
                continue
            with pytest.raises(WebhookVerificationError):
                Webhook(secret).verify(got.body, got.headers)
    for statement in purge.STATEMENTS:
        store.run(statement)
    assert [row.secret for row in store.rows(webhook_secret)] == [new]


def test_a_test_goes_first_and_is_tried_once(store: Store, receiver: Receiver) -> None:
    webhook_id = make(store, receiver.url)
    receiver.answer = lambda _: 503
    tell(store, "lease.active")
    deliver(store)
    _test_message(store, webhook_id)
    deliver(store)
    assert receiver.ids[1:] == [log(store, webhook_id)[1].event_id]
    assert [row.state for row in log(store, webhook_id)] == ["pending", "given_up"]


def test_a_deleted_webhook_gets_nothing_more(store: Store, receiver: Receiver) -> None:
    webhook_id = make(store, receiver.url)
    tell(store, "lease.active")
    fan_out(store.database)
    store.run(statements.remove(webhook_id, within=store.tenant_id))
    deliver(store)
    assert (receiver.got, log(store, webhook_id)) == ([], [])


def test_the_log_is_kept_for_thirty_days(store: Store, receiver: Receiver) -> None:
    webhook_id = make(store, receiver.url)
    old, young = tell(store, "lease.active", "lease.failed")
    deliver(store)
    mine = webhook_delivery.c.event_id == old
    store.run(update(webhook_delivery).where(mine).values(created_at=ago("31 days")))
    for statement in purge.STATEMENTS:
        store.run(statement)
    assert [row.event_id for row in log(store, webhook_id)] == [young]
