"""Operators are told of each cause once, at each of their receivers, and no line of the log shows a receiver's URL."""

from collections.abc import Iterator
from urllib.parse import urlsplit

import pytest
from pydantic import SecretStr
from sqlalchemy import insert, text, update

from app.db.core.ids import new_id
from app.db.schema.tables import account, account_region, event, installation, operator_message, orphan
from app.domain.operator_messages import MessageKind
from app.settings import Settings, StartupError, load_settings
from tests.db.events.test_events import sequence
from tests.db.store import Store, ago
from tests.harness.lines import written_by
from tests.workers.receiver import receiving
from workers.delivery import operator_messages
from workers.delivery.notifier import receivers
from workers.delivery.operator_messages import collect, send
from workers.runtime.database import WorkerDatabase

ALL = tuple(MessageKind)


class Inbox:
    """A receiver of notifications."""

    def __init__(self, name: str) -> None:
        self.id = name
        self.accepts = True
        self.got: list[str] = []

    def send(self, title: str, body: str) -> bool:
        self.got.append(f"{title}\n{body}")
        return self.accepts


@pytest.fixture
def store(database_url: str) -> Iterator[Store]:
    database = WorkerDatabase(database_url, pool_size=4)
    yield Store(database)
    database.close()


def found_orphan(store: Store, name: str, cause: str, age: str) -> None:
    place = {"account": "main", "region": "us-east-1", "zone": "us-east-1a", "provider": "aws", "market": "spot"}
    about = {"instance_type": "g5.xlarge", "tags": {}, "instance_id": name, "cause": cause, "first_seen_at": ago(age)}
    store.run(insert(orphan).values(**place, **about))


def told(store: Store) -> list[tuple[str, str]]:
    return [(row.kind, row.text) for row in store.all(operator_message.select().order_by(operator_message.c.id))]


def reached(store: Store, percent: int) -> None:
    about = {"id": new_id("event"), "tenant_id": store.tenant_id, "type": "budget.threshold"}
    store.run(insert(event).values(**about, data={"threshold": percent}))
    sequence(store)


def deliver(store: Store, *inboxes: Inbox) -> int:
    return send(store.database, inboxes, installation="lab")


def test_each_cause_is_told_once(store: Store) -> None:
    collect(store.database, ALL)
    assert told(store) == []
    found_orphan(store, "i-lost", "lost_row", "1 second")
    found_orphan(store, "i-late", "ended_lease", "4 minutes")
    found_orphan(store, "i-soon-gone", "ended_lease", "1 second")
    store.run(update(installation).values(hold={"reason": "another timeline", "since": "2026-11-01T00:00:00Z"}))
    month = "date_trunc('month', now())"
    store.run(
        text(
            "INSERT INTO invoice_import (id, file_name, file_hash, provider, month, lines, unlisted_resources, unlisted_cost)"
            f" VALUES ('import_1', 'focus.csv', '', 'aws', {month}, 1, 2, 9.456)"
        )
    )
    for _ in range(2):
        collect(store.database, ALL)
    assert sorted(kind for kind, _ in told(store)) == ["brake", "orphan", "orphan", "reconciliation"]
    texts = " ".join(words for _, words in told(store))
    assert "A VM belongs to no lease (lost_row): i-lost, g5.xlarge in main/us-east-1." in texts
    assert "The installation is on hold: another timeline." in texts
    assert "aws charged 9.46 USD in" in texts
    assert "for 2 resources of this installation that belong to no lease." in texts


def test_each_cordon_of_offerings_is_reported_once(store: Store) -> None:
    store.run(insert(account).values(name="main", provider="aws", config={}))
    first = {"zone": None, "instance_type": "g5.xlarge", "market": None, "since": "2026-11-01T00:00:00.1Z"}
    second = {"zone": "us-east-1a", "instance_type": None, "market": "spot", "since": "2026-11-01T00:00:00.2Z"}
    store.run(insert(account_region).values(account="main", region="us-east-1", cordons=[first, second]))
    for _ in range(2):
        collect(store.database, ALL)
    begin = "An operator has stopped launches in us-east-1 of the account main"
    assert sorted(told(store)) == [
        ("brake", f"{begin}: every type, us-east-1a, spot."),
        ("brake", f"{begin}: g5.xlarge, every zone, every market."),
    ]


def test_a_budget_is_told_when_it_is_exceeded_and_not_of_the_time_before_the_setting(store: Store) -> None:
    reached(store, 100)
    collect(store.database, ALL)
    reached(store, 80)
    collect(store.database, ALL)
    assert told(store) == []
    reached(store, 100)
    for _ in range(2):
        collect(store.database, ALL)
    assert told(store) == [("budget", f"A budget of the tenant {store.tenant_id} is exceeded.")]


def test_only_chosen_kinds_are_told(store: Store) -> None:
    found_orphan(store, "i-lost", "lost_row", "1 second")
    collect(store.database, (MessageKind.BRAKE,))
    assert told(store) == []


def test_a_receiver_that_accepted_a_message_does_not_get_it_again(store: Store) -> None:
    for name in ("i-1", "i-2"):
        found_orphan(store, name, "lost_row", "1 second")
    collect(store.database, ALL)
    well, ill = Inbox("well"), Inbox("ill")
    ill.accepts = False
    assert deliver(store, well, ill) == 2
    assert deliver(store, well, ill) == 0, "the next try comes after a pause"
    store.run(text("UPDATE operator_message SET next_try_at = now()"))
    ill.accepts = True
    assert deliver(store, well, ill) == 2
    assert (len(well.got), len(ill.got)) == (1, 2)
    assert well.got[0].startswith("gpulease lab: 2 messages\nA VM belongs to no lease")
    rows = store.rows(operator_message)
    assert {(row.next_try_at, row.tries, tuple(row.sent_to)) for row in rows} == {(None, 2, ("ill", "well"))}
    assert deliver(store, well, ill) == 0


def test_a_message_that_an_address_did_not_accept_goes_to_the_address_that_replaces_it(store: Store) -> None:
    old, new = Inbox("old"), Inbox("new")
    old.accepts = False
    found_orphan(store, "i-lost", "lost_row", "1 second")
    collect(store.database, ALL)
    assert deliver(store, old) == 1
    store.run(update(operator_message).values(next_try_at=ago("1 second")))
    deliver(store, new)
    assert len(new.got) == 1
    assert deliver(store, new) == 0


def test_after_three_days_a_message_is_given_up(store: Store) -> None:
    found_orphan(store, "i-1", "lost_row", "1 second")
    collect(store.database, ALL)
    ill = Inbox("ill")
    ill.accepts = False
    deliver(store, ill)
    store.run(text("UPDATE operator_message SET next_try_at = now(), created_at = now() - interval '73 hours'"))
    deliver(store, ill)
    (row,) = store.rows(operator_message)
    assert (row.next_try_at, row.sent_at, row.tries) == (None, None, 2)


def settings(url: str) -> Settings:
    return load_settings(notify_urls=SecretStr(url))


@pytest.mark.filterwarnings("ignore:'imghdr' is deprecated:DeprecationWarning")  # Apprise loads all its services
def test_apprise_sends_and_no_log_line_shows_the_url(store: Store, caplog: pytest.LogCaptureFixture) -> None:
    found_orphan(store, "i-1", "lost_row", "1 second")
    collect(store.database, ALL)
    with receiving() as web, written_by(log=operator_messages) as lines:
        web.answer = lambda _: 500
        (one,) = receivers(settings(f"json://user:hunter2@{urlsplit(web.url).netloc}/hook"))
        assert send(store.database, [one], installation="lab") == 1
        web.answer = lambda _: 200
        store.run(text("UPDATE operator_message SET next_try_at = now()"))
        assert send(store.database, [one], installation="lab") == 1
        assert b"i-1, g5.xlarge" in web.got[-1].body
        logged = str(lines.new())
    assert store.rows(operator_message)[0].sent_at is not None
    shown = "".join([logged, caplog.text, repr(one), repr(settings("json://user:hunter2@localhost"))])
    assert "hunter2" not in shown
    assert "operators not notified" in logged


@pytest.mark.filterwarnings("ignore:'imghdr' is deprecated:DeprecationWarning")  # Apprise loads all its services
def test_a_url_that_apprise_does_not_know_stops_the_start_without_showing_it() -> None:
    with pytest.raises(StartupError, match=r"GPULEASE_NOTIFY_URLS: entry 2 is not a URL") as refused:
        receivers(settings("json://localhost/x carrier-pigeon:hunter2"))
    assert "hunter2" not in str(refused.value)
    assert receivers(load_settings()) == ()


def test_a_kind_that_does_not_exist_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GPULEASE_NOTIFY_KINDS", "orphan, weather")
    with pytest.raises(StartupError, match="GPULEASE_NOTIFY_KINDS: 'weather' is none of orphan, brake"):
        load_settings()
