"""The comparison of a listing with the database, over every kind of row and every kind of VM."""

from collections.abc import Iterator
from dataclasses import replace
from datetime import timedelta
from itertools import product
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.domain.ids import AttemptId, LeaseId
from app.domain.inventory import ALIVE, EMPTY_LISTINGS, Findings, Listing, Row, Seen, compare
from app.domain.leases import LIVE_ATTEMPT, AttemptState, VmState
from tests.domain.samples import LEASE, NOW, ago

A = AttemptState
GAP = 120.0
KEY = (LEASE, 1)
OTHER = LeaseId("lease_01jz0000000000000000000002")


def row(state: AttemptState = A.KNOWN, **changes: Any) -> Row:
    facts: dict[str, Any] = {
        "attempt_id": AttemptId("attempt_1"),
        "lease_id": LEASE,
        "n": 1,
        "zone": "z1",
        "lease_ended": False,
        "ending": False,
        "instance_id": "i-1" if state in (A.KNOWN, A.DEAD) else None,
        "vm_state": VmState.RUNNING if state is A.KNOWN else None,
        "public_ip": None,
        "private_ip": None,
        "known_at": ago(900) if state is A.KNOWN else None,
        "last_sent_at": ago(1000) if state is not A.PLANNED else None,
        "empty_listings": 0,
        "last_empty_listing_at": None,
    }
    return Row(state=state, **{**facts, **changes})


def seen(vm_id: str = "i-1", state: VmState = VmState.RUNNING, **changes: Any) -> Seen:
    return Seen(**{"vm_id": vm_id, "zone": "z1", "state": state, "key": KEY, **changes})


def look(rows: list[Row], *vms: Seen, **changes: Any) -> Findings:
    listing = Listing(started_at=NOW, seen=vms, **changes)
    return compare(listing, {one.key: one for one in rows}, settle_gap=GAP)


def cases() -> Iterator[tuple[Row, Seen]]:
    """One row and one VM that names it, in every combination of states."""
    states = [state for state in VmState if state is not VmState.ABSENT]
    for state, ended, vm_state, vm_id, before in product(A, (False, True), states, ("i-1", "i-2"), (None, *VmState)):
        if state in LIVE_ATTEMPT and ended:
            continue
        if (before is None) == (state is A.KNOWN):
            continue
        yield row(state, lease_ended=ended, vm_state=before), seen(vm_id, vm_state)


@pytest.mark.parametrize("state", [A.PLANNED, A.SENT, A.SETTLING])
def test_what_may_still_be_under_way_is_never_doomed(state: AttemptState) -> None:
    found = [look([one], vm) for one, vm in cases() if one.state is state]
    assert found
    assert not any(one.doomed or one.rowless for one in found)


@pytest.mark.parametrize("state", [A.SENT, A.SETTLING])
def test_the_vm_of_an_unknown_outcome_is_found_in_whatever_state(state: AttemptState) -> None:
    for one, vm in cases():
        if one.state is state:
            assert look([one], vm).found == [(one, vm)]


def test_the_vm_that_a_lease_owns_is_never_doomed() -> None:
    for one, vm in cases():
        if one.state is A.KNOWN and one.instance_id == vm.vm_id:
            assert not look([one], vm).doomed


def test_what_a_row_proves_dead_is_doomed_while_it_costs_money() -> None:
    for one, vm in cases():
        proven = one.state in (A.REFUSED, A.DEAD) or (one.state is A.KNOWN and one.instance_id != vm.vm_id)
        doomed = look([one], vm).doomed
        assert bool(doomed) == (proven and vm.state in ALIVE), (one, vm)
        if doomed:
            assert doomed == [(vm, one, "ended_lease" if one.lease_ended else "other_attempt")]


def test_a_change_is_told_once_and_only_of_what_changed() -> None:
    for one, vm in cases():
        if one.state is A.KNOWN and one.instance_id == vm.vm_id:
            differs = one.vm_state is not vm.state and one.vm_state is not VmState.GONE
            assert bool(look([one], vm).changed) == differs


@pytest.mark.parametrize("address", ["public_ip", "private_ip"])
def test_a_new_address_is_a_change(address: str) -> None:
    new: dict[str, Any] = {address: "192.0.2.1"}
    assert look([row()], seen(**new)).changed == [(row(), seen(**new))]
    assert not look([row(**new)], seen(**new)).changed
    assert not look([row(**new)], seen()).changed, "a listing need not tell it"


def test_a_vm_that_was_missing_and_is_back_is_a_change() -> None:
    one, vm = row(vm_state=VmState.ABSENT), seen()
    assert look([one], vm).changed == [(one, vm)]


def test_without_a_row_a_vm_is_rowless_while_it_costs_money() -> None:
    for state, key in product(VmState, (None, KEY)):
        vm = seen(state=state, key=key)
        found = look([], vm)
        assert found.rowless == ([vm] if state in ALIVE else [])
        assert not found.doomed


def test_with_a_row_no_vm_is_rowless() -> None:
    assert not any(look([one], vm).rowless for one, vm in cases())


def test_a_listed_vm_is_never_absent_or_counted_as_nothing() -> None:
    for one, vm in cases():
        found = look([one], vm)
        assert not found.empty
        assert not found.absent or vm.vm_id != one.instance_id


# --- what a listing does not show -------------------------------------------------------------------------


def missing(one: Row, *vms: Seen, **changes: Any) -> Findings:
    return look([one], *vms, **changes)


def test_a_known_vm_that_a_complete_listing_does_not_show_is_absent() -> None:
    assert missing(row()).absent == [row()]


@pytest.mark.parametrize("state", sorted(set(A) - {A.KNOWN}))
def test_only_known_vms_can_be_absent(state: AttemptState) -> None:
    assert not missing(row(state)).absent


@pytest.mark.parametrize("state", [VmState.GONE, VmState.ABSENT])
def test_what_is_gone_or_absent_already_is_not_absent_again(state: VmState) -> None:
    assert not missing(row(vm_state=state)).absent


def test_a_listing_that_broke_off_proves_no_absence() -> None:
    found = missing(row(), complete=False)
    assert not found.absent
    assert not missing(row(A.SETTLING), complete=False).empty


def test_a_zone_that_was_not_reached_proves_no_absence() -> None:
    assert not missing(row(), unreachable=frozenset({"z1"})).absent
    assert not missing(row(A.SETTLING), unreachable=frozenset({"z1"})).empty
    assert missing(row(), unreachable=frozenset({"z2"})).absent


@pytest.mark.parametrize("known_at", [NOW, NOW + timedelta(seconds=1), None])
def test_what_became_known_after_the_listing_began_is_not_absent(known_at: Any) -> None:
    assert not missing(row(known_at=known_at)).absent


def test_a_listing_that_shows_nothing_counts_for_a_settling_attempt() -> None:
    assert missing(row(A.SETTLING)).empty == [row(A.SETTLING)]


@pytest.mark.parametrize("state", sorted(set(A) - {A.SETTLING}))
def test_only_settling_attempts_are_proven_to_be_nothing(state: AttemptState) -> None:
    assert not missing(row(state)).empty


@pytest.mark.parametrize("sent", [NOW, NOW + timedelta(seconds=1), None])
def test_a_send_during_the_listing_makes_it_count_for_nothing(sent: Any) -> None:
    assert not missing(row(A.SETTLING, last_sent_at=sent)).empty


def test_listings_count_only_when_apart_and_only_as_many_as_needed() -> None:
    one = row(A.SETTLING, empty_listings=1)
    assert not missing(replace(one, last_empty_listing_at=ago(GAP - 1))).empty
    assert missing(replace(one, last_empty_listing_at=ago(GAP))).empty
    assert not missing(replace(one, empty_listings=EMPTY_LISTINGS, last_empty_listing_at=ago(9999))).empty


@given(st.lists(st.tuples(st.sampled_from(A), st.sampled_from([VmState.RUNNING, VmState.GONE, None])), max_size=12))
def test_every_finding_comes_from_its_own_pair_whatever_else_is_listed(
    pairs: list[tuple[AttemptState, VmState | None]],
) -> None:
    """Leases do not influence one another: the findings of many are those of each alone."""
    rows = [replace(row(state), n=n, instance_id=f"i-{n}") for n, (state, _) in enumerate(pairs, start=1)]
    vms = [seen(f"i-{n}", state, key=(LEASE, n)) for n, (_, state) in enumerate(pairs, start=1) if state is not None]
    together = look(rows, *vms)
    for one in rows:
        own = [vm for vm in vms if vm.key == one.key]
        alone = look([one], *own)
        assert [pair for pair in together.found if pair[0] == one] == alone.found
        assert [pair for pair in together.changed if pair[0] == one] == alone.changed
        assert [entry for entry in together.doomed if entry[1] == one] == alone.doomed
        assert [absent for absent in together.absent if absent == one] == alone.absent
        assert [empty for empty in together.empty if empty == one] == alone.empty


def test_anothers_vm_says_nothing_about_a_lease() -> None:
    stranger = seen("i-9", key=(OTHER, 1))
    assert look([row()], stranger).absent == [row()]
    assert look([row()], stranger).rowless == [stranger]


def test_a_row_out_of_sight_hides_none_of_the_others() -> None:
    hidden, missing = row(zone="away"), row(n=2, instance_id="i-2")
    assert look([hidden, missing], unreachable=frozenset({"away"})).absent == [missing]


def test_a_vm_without_a_key_is_no_row_s() -> None:
    assert look([row()], seen(), seen("i-9", key=None)).changed == []
