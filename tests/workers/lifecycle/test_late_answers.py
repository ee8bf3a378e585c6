"""Answers that arrive after the worker that asked has lost its claim, and another one has gone on.

Worker 1 stalls in a call. Its claim runs out, and worker 2 takes the step over. Then worker 1's answer arrives. It may add
a fact. It undoes nothing that was learnt since, sets no pace, and decides nothing.
"""

from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from functools import partial
from typing import Any

import pytest
from sqlalchemy import func, update

from app.db.leases import reboots
from app.db.schema.tables import attempt
from app.domain.ids import LeaseId
from tests.workers.fleet import ACCOUNT, Fleet
from tests.workers.late import LOST, Answer, Scripted, Stall
from workers.lifecycle.reconciler import Reconciler
from workers.providers import errors

ERRORS: tuple[errors.ProviderError, ...] = (
    errors.Throttled("slow down", code="RequestLimitExceeded"),
    errors.Unreachable("no line", code="EndpointConnectionError"),
    errors.SendExpired("held up", code="SendExpired"),
    errors.OutcomeUnknown("internal error", code="InternalError"),
    errors.InsufficientCapacity("none left", code="InsufficientInstanceCapacity"),
    errors.ProviderQuotaExceeded("full", code="VcpuLimitExceeded"),
    errors.NotOffered("not here", code="Unsupported"),
    errors.InvalidSpec("no", code="InvalidParameterValue"),
    errors.ImageMissing("none", code="InvalidAMIID.NotFound"),
    errors.PriceTooLow("more", code="SpotMaxPriceTooLow"),
    errors.CredentialsRejected("not you", code="UnauthorizedOperation"),
    errors.TokenConflict("other parameters", code="IdempotentParameterMismatch"),
    errors.NotFound("unknown", code="InvalidInstanceID.NotFound"),
)
REFUSED = Answer(errors.InsufficientCapacity("none left", code="InsufficientInstanceCapacity"))
THROTTLED = Answer(errors.Throttled("slow down", code="RequestLimitExceeded"))
FAILURES = {str(error.kind): Answer(error) for error in ERRORS}
OF_ANY_CALL = ("Throttled", "Unreachable", "OutcomeUnknown", "InvalidSpec", "CredentialsRejected", "NotFound")
"""What calls other than the create call may end with. The other errors are about launches alone."""


class Workers:
    """Two worker processes. The calls named in a script end as it says, all others as the cloud answers them."""

    def __init__(self, make_fleet: Callable[..., Fleet], **settings: Any) -> None:
        self.scripts = Scripted(), Scripted()
        self.first, self.second = (
            make_fleet(connect_account=script.connect, observe=n == 0, **settings)
            for n, script in enumerate(self.scripts)
        )
        self.second.runtime.accounts.check_identity(ACCOUNT)
        self.before: Any = None

    def rows(self, lease_id: LeaseId) -> Any:
        return self.second.lease(lease_id), self.second.attempts(lease_id)

    def stall(self, call: str, lease_id: LeaseId, answer: Answer, goes_on: Callable[[], object], **when: Any) -> None:
        """Moves a lease by the first worker, whose call of this name stalls until its claim has run out and `goes_on` is over."""

        def meanwhile() -> None:
            self.first.end_claims(lease_id)
            goes_on()
            self.before = self.rows(lease_id)

        self.scripts[0].script[call] = [Stall(answer, meanwhile, **when)]
        self.before = None
        self.first.make_due(lease_id)
        self.first.step()
        assert self.before is not None, f"{call} was not called"

    def use_up_the_script(self, lease_id: LeaseId) -> None:
        """The second worker goes on at once, before anybody has looked at the cloud, as long as it would send."""
        while self.scripts[1].script.get("launch") and self.second.attempts(lease_id)[-1].state == "sent":
            self.second.runtime.database.run(update(attempt).values(retry_at=None))
            self.second.make_due(lease_id)
            self.second.step()
        self.scripts[1].script.clear()


@pytest.fixture
def workers(make_fleet: Callable[..., Fleet]) -> Workers:
    return Workers(make_fleet, unknown_retry_seconds=20.0)


# --- the create call ------------------------------------------------------------------------------------------------

SECOND: dict[str, list[Answer]] = {
    "is lost, and refused when repeated": [Answer(LOST, sent=True), REFUSED],
    "is throttled, and refused when repeated": [THROTTLED, REFUSED],
    "is refused": [REFUSED],
}
"""How the second worker's repetition of the create call ends."""

FIRST: dict[str, tuple[Answer, bool]] = {
    "makes the VM": (Answer(), True),
    "has made the VM": (Answer(), False),
    "makes the VM and is lost": (Answer(LOST, sent=True), True),
    **{kind: (answer, True) for kind, answer in FAILURES.items()},
}
"""How the first worker's call ends, and whether it stalls before the request leaves."""


MEANWHILE = (*SECOND, "active", "released")
"""What the second worker does with the lease: repeats the call, or goes on to a state."""


def beside(first: str) -> tuple[str, ...]:
    """Each outcome with a VM meets all that may happen meanwhile. The errors take turns: a pair of five for each."""
    if first not in FAILURES:
        return MEANWHILE
    n = list(FAILURES).index(first)
    return MEANWHILE[n % 5], MEANWHILE[(n + 2) % 5]


OVER = ("released", "failed")


def all_become_one_vm_and_then_none(workers: Workers, lease_ids: list[LeaseId]) -> None:
    """Active with the one VM that was ever made for each, then over, with nothing left."""
    fleet = workers.second
    fleet.drive_all_to(lease_ids, "active", *OVER)
    assert len(fleet.sim.instances()) == len(lease_ids)
    known = [fleet.attempts(one)[-1].instance_id for one in lease_ids if not fleet.are([one], *OVER)]
    assert sorted(known) == sorted(vm["id"] for vm in fleet.vms())
    for one in lease_ids:
        fleet.end(one)
    fleet.drive_all_to(lease_ids, *OVER)
    assert fleet.vms() == []
    assert fleet.used() == {}


@pytest.mark.parametrize("first", FIRST)
def test_a_create_call_that_is_answered_late_never_leads_to_a_second_vm(workers: Workers, first: str) -> None:
    answer, before = FIRST[first]
    lease_ids = []
    for meanwhile in beside(first):
        lease_ids.append(lease_id := workers.first.create(wait_seconds=600))
        if meanwhile in SECOND:
            workers.scripts[1].script["launch"] = list(SECOND[meanwhile])
            workers.stall("launch", lease_id, answer, workers.second.step, before=before)
            if answer.error is not None:
                assert workers.rows(lease_id) == workers.before, "the answer to an older send changes nothing"
            workers.use_up_the_script(lease_id)
        else:
            goes_on = partial(go_on_to, workers.second, lease_id, meanwhile)
            workers.stall("launch", lease_id, answer, goes_on, before=before)
            assert workers.rows(lease_id) == workers.before, f"what is known of a lease that is {meanwhile} stays"
    all_become_one_vm_and_then_none(workers, lease_ids)


def go_on_to(fleet: Fleet, lease_id: LeaseId, state: str) -> None:
    """Active, and then over where that is asked for."""
    fleet.drive_to(lease_id, "active")
    if state == "released":
        fleet.end(lease_id)
        fleet.drive_to(lease_id, "released")


@pytest.mark.parametrize(("held_up", "calls"), [(7.9, 1), (8.1, 0)])
def test_a_create_call_is_not_sent_when_its_worker_was_held_up_until_its_claim_may_run_out(
    workers: Workers, held_up: float, calls: int
) -> None:
    """A claim lasts 16 seconds here, and a call eight."""
    fleet, times = workers.first, [100.0]
    stepping = Reconciler(replace(fleet.runtime, monotonic=lambda: times[-1]))
    lease_id = fleet.create(wait_seconds=600)
    workers.scripts[0].script["launch"] = [Stall(Answer(), lambda: times.append(100.0 + held_up))]
    assert stepping.run_hinted(lease_id)
    (made,) = fleet.attempts(lease_id)
    assert fleet.runs() == calls
    if not calls:
        assert (made.state, made.unknown_since, made.error["class"]) == ("sent", None, "SendExpired")
    all_become_one_vm_and_then_none(workers, [lease_id])


# --- the other calls ------------------------------------------------------------------------------------------------


def placed(workers: Workers, call: str) -> LeaseId:
    """A lease in the queue, whose first worker has to ask who it is and for the image."""
    accounts = workers.first.runtime.accounts
    for remembered in (accounts._trusted_until, accounts._images, accounts._silent, accounts._unreachable_since):
        remembered.clear()
    return workers.first.create(wait_seconds=600)


def looked_for(workers: Workers, call: str) -> LeaseId:
    """A lease whose create call made a VM, and whose answer was lost. With `leftovers`: it seems that nothing was made."""
    workers.scripts[0].script["launch"] = [Answer(LOST, sent=True)]
    lease_id = workers.first.create()
    workers.first.step()
    proof: dict[str, Any] = {"state": "settling", "settling_since": func.now(), "retry_at": None}
    if call == "leftovers":
        workers.scripts[0].script["find"] = [Answer(shown=lambda _: None)]
        long_ago = func.now() - timedelta(hours=1)
        proof |= {"empty_listings": 2, "last_empty_listing_at": long_ago, "last_sent_at": long_ago}
    workers.first.runtime.database.run(update(attempt).where(attempt.c.lease_id == lease_id).values(proof))
    return lease_id


def missing(workers: Workers, call: str) -> LeaseId:
    """An active lease whose VM a complete listing did not show."""
    lease_id = workers.first.active()
    mine = update(attempt).where(attempt.c.lease_id == lease_id)
    workers.first.runtime.database.run(mine.values(vm_state="absent", known_at=func.now() - timedelta(hours=1)))
    return lease_id


def ending(workers: Workers, call: str) -> LeaseId:
    """A lease that is to end."""
    lease_id = workers.first.active()
    workers.first.end(lease_id)
    return lease_id


def extended(workers: Workers, call: str) -> LeaseId:
    """An active lease whose deadline tag is behind."""
    lease_id = workers.first.active()
    workers.first.extend(lease_id, 7200)
    return lease_id


def to_be_rebooted(workers: Workers, call: str) -> LeaseId:
    """An active lease whose owner asked for a reboot."""
    lease_id = workers.first.active()
    workers.first.runtime.database.run(reboots.request(lease_id, None, within=None))
    return lease_id


def go_on(fleet: Fleet, lease_id: LeaseId) -> None:
    """What has to be done is done."""
    if fleet.lease(lease_id).desired == "end":
        fleet.drive_to(lease_id, "released")
        return

    def rests() -> bool:
        kept = fleet.lease(lease_id)
        vm = fleet.attempts(lease_id)[-1].vm_state if kept.state == "active" else None
        return vm == "running" and kept.reboot_requested_at is None and fleet.rests(lease_id) > 60

    fleet.drive(rests)


CALLS: dict[str, Callable[[Workers, str], LeaseId]] = {
    "identity": placed,
    "image": placed,
    "find": looked_for,
    "leftovers": looked_for,
    "get": missing,
    "terminate": ending,
    "set_deadline": extended,
    "reboot": to_be_rebooted,
}
"""The step calls one of these and stalls. The state that it starts from."""


@pytest.mark.parametrize("call", CALLS)
def test_no_late_answer_changes_what_became_of_a_lease(workers: Workers, call: str) -> None:
    fleet, lease_ids = workers.second, []
    for name, answer in {
        "the answer": Answer(),
        "an old answer": Answer(),
        **{kind: FAILURES[kind] for kind in OF_ANY_CALL},
    }.items():
        lease_ids.append(lease_id := CALLS[call](workers, call))
        workers.stall(call, lease_id, answer, partial(go_on, fleet, lease_id), before=name != "an old answer")
        assert workers.rows(lease_id) == workers.before, f"{call}: {name}"
        fleet.runtime.accounts.check_identity(ACCOUNT)
        fleet.end_cool_offs()
    all_become_one_vm_and_then_none(workers, lease_ids)


def test_a_vm_that_somebody_has_seen_since_is_not_gone_for_an_older_look_that_showed_nothing(workers: Workers) -> None:
    lease_id = missing(workers, "get")
    nothing = Answer(shown=dict.fromkeys)
    workers.stall("get", lease_id, nothing, partial(go_on, workers.second, lease_id), before=False)
    assert workers.rows(lease_id) == workers.before
    all_become_one_vm_and_then_none(workers, [lease_id])
