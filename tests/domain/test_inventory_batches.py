"""The comparison of listed VMs of launch batches, which may have no tags of their own yet."""

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from app.domain.ids import BatchId
from app.domain.inventory import ALIVE, BatchSlot, ListedVm
from app.domain.leases import AttemptState, VmState
from app.domain.tokens import batch_token, launch_name
from tests.domain.samples import LEASE, NOW, ahead
from tests.domain.test_inventory import INSTALLATION, KEY, OTHER, TOKEN_KEY, look, row, token_of

A = AttemptState
TOKEN = batch_token(TOKEN_KEY, INSTALLATION, BatchId("batch_1"))
SLOT = BatchSlot(token=TOKEN, is_known=True, key=KEY, is_labelled=False)
NAMED = launch_name(token_of(LEASE, 1))
"""What Compute Engine keeps of a launch: the name of the slot's VM."""


def seen(identity: str = TOKEN, slot: BatchSlot = SLOT, **changes: Any) -> ListedVm:
    """A VM that has only the tags of its batch, unless a test says otherwise."""
    facts: dict[str, Any] = {"vm_id": "i-1", "zone": "z1", "state": VmState.RUNNING, "key": None}
    return ListedVm(**(facts | {"launch_identity": identity, "batch": slot} | changes))


@pytest.mark.parametrize("identity", [TOKEN, NAMED])
@pytest.mark.parametrize("state", [A.SENT, A.SETTLING])
def test_a_vm_without_tags_of_its_own_is_found_by_its_slot(identity: str, state: AttemptState) -> None:
    one, vm = row(state), seen(identity)
    assert look([one], vm).matched == [(one, vm)]


@pytest.mark.parametrize("state", [A.REFUSED, A.DEAD])
def test_a_vm_of_an_ended_attempt_is_doomed(state: AttemptState) -> None:
    one, vm = row(state, instance_id=None), seen()
    assert look([one], vm).doomed == [(vm, one, "other_attempt")]
    ended = replace(one, lease_ended=True)
    assert look([ended], vm).doomed == [(vm, ended, "ended_lease")]


@pytest.mark.parametrize("identity", [TOKEN, NAMED])
def test_a_vm_in_a_slot_without_an_attempt_is_doomed(identity: str) -> None:
    vm = seen(identity, replace(SLOT, key=None))
    assert look([row(A.PLANNED)], vm).doomed == [(vm, None, "other_attempt")]


@pytest.mark.parametrize("identity", [TOKEN, NAMED])
def test_a_vm_of_a_batch_that_the_database_has_lost_is_lost(identity: str) -> None:
    vm = seen(identity, replace(SLOT, key=None, is_known=False))
    findings = look([], vm)
    assert (findings.lost, findings.doomed, findings.copied) == ([vm], [], [])


def test_a_vm_with_copied_tags_of_a_batch_is_not_of_the_batch() -> None:
    vm = seen("somebody-s-token")
    findings = look([row(A.SENT)], vm)
    assert (findings.copied, findings.matched) == ([vm], [])


def test_another_launch_with_copied_tags_of_a_batch_keeps_its_own_attempt() -> None:
    other = row(A.SENT, lease_id=OTHER)
    vm = seen(token_of(OTHER, 1), key=(OTHER, 1))
    assert look([row(A.SENT), other], vm).matched == [(other, vm)]


def test_the_slot_counts_more_than_tags_that_name_another_attempt() -> None:
    one, other = row(A.SENT), row(A.SENT, lease_id=OTHER)
    vm = seen(key=(OTHER, 1))
    assert look([one, other], vm).matched == [(one, vm)]


@pytest.mark.parametrize("state", [state for state in VmState if state not in ALIVE and state is not VmState.ABSENT])
def test_what_has_ended_in_a_slot_without_an_attempt_is_nobodys_concern(state: VmState) -> None:
    findings = look([], seen(slot=replace(SLOT, key=None), state=state))
    assert (findings.lost, findings.doomed, findings.copied) == ([], [], [])


def test_the_common_deadline_is_not_a_difference_until_the_vm_has_its_own() -> None:
    one = row(deadline_applied=ahead(3600))
    common = seen(deadline=ahead(3660))
    assert look([one], common).retagged == []
    labelled = seen(deadline=ahead(3660), slot=replace(SLOT, is_labelled=True), key=KEY)
    assert look([one], labelled).retagged == [(one, labelled)]
    early = seen(deadline=NOW + timedelta(seconds=3500))
    assert look([one], early).retagged == [(one, early)], "the dead-man switch could end the VM before its lease"
