"""Attempts: what guards a send, and that no fact about a VM is ever dropped."""

from datetime import UTC, datetime
from typing import Any
from uuid import uuid4

import pytest
from sqlalchemy import Update, func, text, update
from sqlalchemy.exc import IntegrityError

from app.db.fleet import inventory
from app.db.leases import attempts, launches
from app.db.leases.launches import AcceptedEnd
from app.db.leases.transitions import locked
from app.db.schema.tables import attempt, installation, lease
from app.domain.ids import AttemptId, LeaseId
from app.domain.leases import AttemptState
from tests.db.store import Store, ago, ahead, together


def planned(store: Store, **lease_values: Any) -> tuple[LeaseId, AttemptId]:
    lease_id = store.lease(**{"state": "provisioning", **lease_values})
    return lease_id, store.attempt(lease_id)


def send(store: Store, attempt_id: AttemptId, claim_id: Any, *, call: float = 30) -> Any:
    return store.first(attempts.send(attempt_id, claim_id, call_seconds=call, hold_seconds=90))


def state(store: Store, attempt_id: AttemptId) -> str:
    return str(store.row(attempt, attempt_id).state)


# --- send ---------------------------------------------------------------------------------------------------


def test_what_is_sent_is_what_was_stored(store: Store) -> None:
    lease_id, attempt_id = planned(store)
    assert send(store, attempt_id, store.claimed(lease_id)).params == {"secret": "script"}
    row = store.row(attempt, attempt_id)
    assert row.state == "sent"
    assert row.first_sent_at == row.last_sent_at == row.unknown_since


def test_the_claim_is_kept_over_the_call(store: Store) -> None:
    lease_id, attempt_id = planned(store)
    claim_id = store.claimed(lease_id, hold_seconds=1)
    before = store.row(lease, lease_id).held_until
    send(store, attempt_id, claim_id)
    assert (store.row(lease, lease_id).held_until - before).total_seconds() > 80


def test_without_the_claim_nothing_is_sent(store: Store) -> None:
    lease_id, attempt_id = planned(store)
    store.claimed(lease_id)
    assert send(store, attempt_id, uuid4()) is None
    assert state(store, attempt_id) == "planned"


def test_a_claim_that_ran_out_sends_nothing_even_when_nobody_took_over(store: Store) -> None:
    lease_id, attempt_id = planned(store)
    assert send(store, attempt_id, store.claimed(lease_id, hold_seconds=-1)) is None


def test_a_lease_whose_end_is_wanted_sends_nothing(store: Store) -> None:
    lease_id, attempt_id = planned(store)
    claim_id = store.claimed(lease_id)
    store.write(lease, lease_id, desired="end", state="releasing")
    assert send(store, attempt_id, claim_id) is None


@pytest.mark.parametrize(("left", "sent"), [("29 seconds", False), ("60 seconds", True)])
def test_the_call_must_fit_before_the_expiry(store: Store, left: str, *, sent: bool) -> None:
    lease_id, attempt_id = planned(store, expires_at=ahead(left))
    assert (send(store, attempt_id, store.claimed(lease_id), call=30) is not None) is sent


@pytest.mark.parametrize("brake", ["hold", "launches_stopped"])
def test_no_launch_passes_a_brake(store: Store, brake: str) -> None:
    lease_id, attempt_id = planned(store)
    store.run(update(installation).values(**{brake: {"reason": "test"}}))
    assert send(store, attempt_id, store.claimed(lease_id)) is None
    assert state(store, attempt_id) == "planned"


def test_a_send_and_an_observation_of_the_same_vm_never_block_each_other(store: Store) -> None:
    lease_id, attempt_id = planned(store)
    claim_id = store.claimed(lease_id)

    def work(number: int) -> None:
        for _ in range(30):
            if number % 2:
                send(store, attempt_id, claim_id)
            else:
                with store.database.begin() as connection:
                    connection.execute(*locked([lease_id]))
                    connection.execute(attempts.fact(attempt_id, attempt_id, {"ready": False}))
                    connection.execute(*inventory.wake([lease_id]))

    together(6, work)


@pytest.mark.parametrize("other", ["known", "settling"])
def test_what_is_known_or_settling_is_never_sent_again(store: Store, other: str) -> None:
    lease_id = store.lease(state="provisioning")
    attempt_id = store.attempt(lease_id, other)
    assert send(store, attempt_id, store.claimed(lease_id)) is None
    assert state(store, attempt_id) == other


def test_a_send_after_a_crash_in_the_call_counts_as_unknown_since_the_first(store: Store) -> None:
    lease_id, attempt_id = planned(store)
    send(store, attempt_id, store.claimed(lease_id, hold_seconds=60))
    first = store.row(attempt, attempt_id).first_sent_at
    store.write(lease, lease_id, held_until=ago("1 second"))
    send(store, attempt_id, store.claimed(lease_id))
    row = store.row(attempt, attempt_id)
    assert row.unknown_since == row.first_sent_at == first
    assert row.last_sent_at > first


def test_a_throttled_send_is_as_unknown_as_before_it(store: Store) -> None:
    lease_id, attempt_id = planned(store)
    sent = send(store, attempt_id, store.claimed(lease_id))
    store.run(
        attempts.not_done(attempt_id, attempt_id, sent.last_sent_at, 5, {"class": "Throttled"}, unknown_since=None)
    )
    row = store.row(attempt, attempt_id)
    assert row.unknown_since is None
    assert row.retry_at > row.last_sent_at
    assert row.error == {"class": "Throttled"}


ERROR = {"class": "Late", "code": None, "message": "late"}


def answers(attempt_id: AttemptId, sent_at: datetime) -> dict[str, Update]:
    """All that an answer without a VM may write."""
    return {
        "not done": attempts.not_done(attempt_id, attempt_id, sent_at, 5, ERROR, unknown_since=None),
        "unknown": attempts.unknown(attempt_id, attempt_id, sent_at, 5, ERROR),
        "only look": attempts.only_look(attempt_id, attempt_id, sent_at, ERROR),
    }


ANSWERS = ["not done", "unknown", "only look"]


def lose_claim(store: Store, lease_id: LeaseId) -> Any:
    """Its claim has run out, and another worker has the lease."""
    store.write(lease, lease_id, held_until=ago("1 second"))
    return store.claimed(lease_id)


@pytest.mark.parametrize("answer", ANSWERS)
def test_an_answer_to_an_older_send_changes_nothing(store: Store, answer: str) -> None:
    lease_id, attempt_id = planned(store)
    older = send(store, attempt_id, store.claimed(lease_id)).last_sent_at
    newest = send(store, attempt_id, lose_claim(store, lease_id)).last_sent_at
    before = store.row(attempt, attempt_id)
    assert store.first(answers(attempt_id, older)[answer]) is None
    assert store.row(attempt, attempt_id) == before
    assert store.first(answers(attempt_id, newest)[answer]) is not None


@pytest.mark.parametrize("since", ["known", "settling", "refused"])
@pytest.mark.parametrize("answer", ANSWERS)
def test_an_answer_without_a_vm_changes_nothing_when_more_is_known_by_then(
    store: Store, answer: str, since: str
) -> None:
    lease_id, attempt_id = planned(store)
    sent_at = send(store, attempt_id, store.claimed(lease_id)).last_sent_at
    ended = {"ended_at": func.now(), "clean": True} if since == "refused" else {}
    found = {"instance_id": "i-1", "vm_state": "running", "known_at": func.now()} if since == "known" else {}
    store.write(attempt, attempt_id, state=since, **ended, **found)
    before = store.row(attempt, attempt_id)
    assert store.first(answers(attempt_id, sent_at)[answer]) is None
    assert store.row(attempt, attempt_id) == before


def test_a_failed_call_sets_the_pace_only_under_the_claim(store: Store) -> None:
    lease_id = store.lease()
    attempt_id = store.attempt(lease_id, "known")
    claim_id = store.claimed(lease_id)
    later = attempts.retry_later(attempt_id, attempt_id, 5, ERROR, claim_id=claim_id)
    assert store.first(later) is not None
    store.write(attempt, attempt_id, retry_at=None)
    lose_claim(store, lease_id)
    assert store.first(later) is None
    assert store.row(attempt, attempt_id).retry_at is None


@pytest.mark.parametrize("since", ["nothing", "seen", "seen and lost again", "claim lost"])
def test_a_vm_that_nothing_shows_is_gone_unless_somebody_has_seen_it_since(store: Store, since: str) -> None:
    lease_id = store.lease()
    attempt_id = store.attempt(lease_id, "known", vm_state="absent", vm_state_at=ago("1 minute"))
    before, claim_id = store.row(attempt, attempt_id), store.claimed(lease_id)
    if since == "claim lost":
        lose_claim(store, lease_id)
    elif since != "nothing":
        now = {"vm_state": "running" if since == "seen" else "absent", "vm_state_at": func.now()}
        store.write(attempt, attempt_id, **now)
    store.run(attempts.presume_gone(attempt_id, claim_id, absent_since=before.vm_state_at))
    after = store.row(attempt, attempt_id)
    assert (after.vm_state == "gone") == (since == "nothing")
    if since == "nothing":
        assert after.vm_state_at == before.vm_state_at


# --- facts --------------------------------------------------------------------------------------------------


def test_a_providers_id_is_recorded_without_any_claim(store: Store) -> None:
    _, attempt_id = planned(store)
    row = store.first(attempts.known(attempt_id, attempt_id, {"instance_id": "i-1", "vm_state": "pending"}))
    assert row is not None
    assert row.state == "known"


def test_an_answer_written_down_late_undoes_nothing_that_was_seen_of_the_vm_since(store: Store) -> None:
    attempt_id = store.attempt(store.lease(), "known", public_ip="203.0.113.7", vm_state_at=ago("1 minute"))
    before = store.row(attempt, attempt_id)
    answer = {"instance_id": before.instance_id, "vm_state": "pending", "public_ip": None, "error": None}
    assert store.first(attempts.known(attempt_id, attempt_id, answer)) is not None
    assert store.row(attempt, attempt_id) == before


def test_an_answer_that_says_the_vm_has_failed_is_kept_with_its_reason_though_the_vm_was_seen_to_start(
    store: Store,
) -> None:
    attempt_id = store.attempt(store.lease(), "known", vm_state="pending")
    why = {"code": "NoRoom", "message": "no room", "interrupted": False}
    answer = {"instance_id": store.row(attempt, attempt_id).instance_id, "vm_state": "gone", "vm_reason": why}
    store.run(attempts.known(attempt_id, attempt_id, answer))
    row = store.row(attempt, attempt_id)
    assert (row.vm_state, row.vm_reason) == ("gone", why)


@pytest.mark.parametrize("over", ["dead", "refused"])
def test_a_late_id_is_kept_on_what_is_over_and_does_not_revive_it(store: Store, over: str) -> None:
    lease_id = store.lease()
    attempt_id = store.attempt(lease_id, over, ended_at=text("now()"), clean=True)
    store.run(attempts.known(attempt_id, attempt_id, {"instance_id": "i-late", "vm_state": "running"}))
    row = store.row(attempt, attempt_id)
    assert (row.state, row.instance_id) == (over, "i-late")


@pytest.mark.parametrize("over", ["dead", "refused"])
def test_a_late_answer_leaves_an_attempt_that_is_over_its_error_and_the_end_of_its_vm(store: Store, over: str) -> None:
    ended = {"ended_at": text("now()"), "clean": True, "error": ERROR}
    vm = {"instance_id": "i-1", "vm_state": "gone", "vm_state_at": ago("1 minute")}
    attempt_id = store.attempt(store.lease(), over, **ended, **vm)
    before = store.row(attempt, attempt_id)
    store.run(attempts.known(attempt_id, attempt_id, {"instance_id": "i-1", "vm_state": "pending", "error": None}))
    after = store.row(attempt, attempt_id)
    assert (after.error, after.vm_state, after.vm_state_at) == (ERROR, "gone", before.vm_state_at)


def test_a_late_answer_neither_hurries_nor_clears_what_is_tried_again_with_a_known_vm(store: Store) -> None:
    attempt_id = store.attempt(store.lease(), "known", retry_at=ahead("1 minute"), error=ERROR)
    before = store.row(attempt, attempt_id)
    answer = {"instance_id": before.instance_id, "vm_state": "pending", "error": None}
    store.run(attempts.known(attempt_id, attempt_id, answer))
    assert store.row(attempt, attempt_id) == before


@pytest.mark.parametrize("state", ["known", "dead"])
def test_the_vm_of_an_attempt_is_never_exchanged_for_another(store: Store, state: str) -> None:
    ended = {"ended_at": text("now()"), "clean": True, "instance_id": "i-1"} if state == "dead" else {}
    attempt_id = store.attempt(store.lease(), state, **ended)
    before = store.row(attempt, attempt_id)
    store.run(attempts.known(attempt_id, attempt_id, {"instance_id": "i-2", "vm_state": "gone"}))
    assert store.row(attempt, attempt_id) == before


def test_a_fact_needs_the_token_and_a_live_attempt(store: Store) -> None:
    lease_id = store.lease()
    over = store.attempt(lease_id, "dead", ended_at=text("now()"))
    live = store.attempt(lease_id)
    assert store.first(attempts.fact(over, over, {"ready": True})) is None
    assert store.first(attempts.fact(live, "another token", {"ready": True})) is None
    assert store.first(attempts.known(live, "another token", {"instance_id": "i-1", "vm_state": "pending"})) is None
    assert store.first(attempts.fact(live, live, {"ready": True})) is not None


def test_settling_starts_the_proof_anew(store: Store) -> None:
    lease_id = store.lease()
    attempt_id = store.attempt(lease_id, "sent", empty_listings=2, last_empty_listing_at=ago("1 minute"))
    store.run(attempts.settle(attempt_id, attempt_id))
    row = store.row(attempt, attempt_id)
    assert (row.state, row.empty_listings, row.last_empty_listing_at) == ("settling", 0, None)


def test_what_inventory_found_meanwhile_does_not_settle(store: Store) -> None:
    attempt_id = store.attempt(store.lease(), "known")
    assert store.first(attempts.settle(attempt_id, attempt_id)) is None
    assert state(store, attempt_id) == "known"


# --- the end ------------------------------------------------------------------------------------------------


def end(store: Store, attempt_id: AttemptId, claim_id: Any, before: AttemptState = AttemptState.KNOWN) -> Any:
    return store.first(attempts.end(attempt_id, claim_id, AttemptState.DEAD, before=before, clean=True))


def test_an_attempt_whose_vm_was_found_meanwhile_does_not_end_as_one_that_created_nothing(store: Store) -> None:
    lease_id = store.lease()
    attempt_id = store.attempt(lease_id, "settling")
    claim_id = store.claimed(lease_id)
    store.write(attempt, attempt_id, state="known", instance_id="i-1", vm_state="running", known_at=func.now())
    assert end(store, attempt_id, claim_id, before=AttemptState.SETTLING) is None
    assert state(store, attempt_id) == "known"


def test_an_attempt_ends_once_and_only_under_the_claim(store: Store) -> None:
    lease_id, attempt_id = planned(store)
    claim_id = store.claimed(lease_id)
    assert end(store, attempt_id, uuid4(), AttemptState.PLANNED) is None
    ends = together(8, lambda _: end(store, attempt_id, claim_id, AttemptState.PLANNED))
    assert sum(row is not None for row in ends) == 1


STARTED, GONE = datetime(2026, 1, 1, 10, tzinfo=UTC), datetime(2026, 1, 1, 11, tzinfo=UTC)


@pytest.mark.parametrize(
    ("started", "gone", "ended"),
    [(STARTED, GONE, GONE), (GONE, STARTED, GONE), (None, GONE, None)],
    ids=["at the provider's time", "never before its start", "never started"],
)
def test_billing_ends(store: Store, started: Any, gone: Any, ended: Any) -> None:
    lease_id = store.lease()
    attempt_id = store.attempt(lease_id, "known", billing_started_at=started, vm_state="gone", vm_state_at=gone)
    assert end(store, attempt_id, store.claimed(lease_id)).billing_ended_at == ended


def test_billing_never_ends_later_than_now(store: Store) -> None:
    lease_id = store.lease()
    attempt_id = store.attempt(lease_id, "known", billing_started_at=STARTED, vm_state_at=ahead("1 hour"))
    end(store, attempt_id, store.claimed(lease_id))
    row = store.row(attempt, attempt_id)
    assert row.billing_ended_at == row.ended_at


# --- what cannot be -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("first", ["planned", "sent", "known", "settling"])
def test_a_second_live_attempt_is_refused(store: Store, first: str) -> None:
    lease_id = store.lease()
    store.attempt(lease_id, first)
    with pytest.raises(IntegrityError, match="ix_attempt_live_lease"):
        store.attempt(lease_id)


def test_after_the_end_of_one_another_may_live(store: Store) -> None:
    lease_id = store.lease()
    store.attempt(lease_id, "refused", ended_at=text("now()"), clean=True)
    assert store.attempt(lease_id)


def test_a_token_is_used_once(store: Store) -> None:
    token = store.attempt(store.lease())
    with pytest.raises(IntegrityError, match="uq_attempt_token"):
        store.attempt(store.lease(), token=token)


def test_what_was_sent_is_forgotten_with_the_lease_and_its_hash_stays(store: Store) -> None:
    lease_id, attempt_id = planned(store)
    store.run(launches.forget_params(lease_id))
    row = store.row(attempt, attempt_id)
    assert (row.params, row.params_hash) == (None, "h")


def test_billing_starts_once(store: Store) -> None:
    attempt_id = store.attempt(store.lease(), "known")
    store.run(launches.start_billing([attempt_id]))
    first = store.row(attempt, attempt_id).billing_started_at
    store.run(launches.start_billing([attempt_id]))
    assert store.row(attempt, attempt_id).billing_started_at == first


def test_every_terminate_is_counted(store: Store) -> None:
    attempt_id = store.attempt(store.lease(), "known", retry_at=ago("1 second"))
    accepted = []
    for known in (False, True, False):
        store.run(launches.terminate_sent([AcceptedEnd(attempt_id, attempt_id, known)]))
        accepted.append(store.row(attempt, attempt_id).end_accepted)
    row = store.row(attempt, attempt_id)
    assert (row.terminate_tries, row.retry_at, accepted) == (3, None, [False, True, True])


# --- tried in a pass ----------------------------------------------------------------------------------------


def test_what_a_pass_tried_comes_in_the_order_of_its_attempts(store: Store) -> None:
    """The last of them is the answer that the tenant reads. A plan without the index reads an updated row last."""
    lease_id = store.lease(state="provisioning")
    zones = ["us-east-1a", "us-east-1b", "us-east-1c"]
    tried = [store.attempt(lease_id, "refused", zone=zone, ended_at=func.now()) for zone in zones]
    store.write(attempt, tried[0], clean=True)
    with store.database.begin() as connection:
        connection.execute(text("SET LOCAL enable_indexscan = off"))
        rows = connection.execute(attempts.tried_since(lease_id, datetime.min.replace(tzinfo=UTC))).all()
    assert [row.zone for row in rows] == zones
