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
from app.domain.inventory import ALIVE, EMPTY_LISTINGS, Findings, ListedVm, Listing, Row, compare
from app.domain.leases import LIVE_ATTEMPT, AttemptState, VmState
from app.domain.tokens import launch_name, launch_token
from tests.domain.samples import LEASE, NOW, ago, ahead

A = AttemptState
GAP = 120.0
KEY = (LEASE, 1)
OTHER = LeaseId("lease_01jz0000000000000000000002")
INSTALLATION, TOKEN_KEY = "gpl-0123456789ab", bytes(range(32))
COPIES = (None, "", "somebody-s-token", "c5d0a5a8-8a4c-4f8e-9a57-0d0e8a1b2c3d", "gpulease-planted", "x" * 64)
"""What a cloud keeps of a VM that no launch of gpulease has made."""


def token_of(lease_id: LeaseId, n: int) -> str:
    return launch_token(TOKEN_KEY, INSTALLATION, lease_id, n)


def row(state: AttemptState = A.KNOWN, **changes: Any) -> Row:
    facts: dict[str, Any] = {
        "attempt_id": AttemptId("attempt_1"),
        "lease_id": LEASE,
        "tenant_id": "tenant_1",
        "n": 1,
        "zone": "z1",
        "lease_ended": False,
        "market": "on_demand",
        "terminate_sent_at": None,
        "instance_id": "i-1" if state in (A.KNOWN, A.DEAD) else None,
        "vm_state": VmState.RUNNING if state is A.KNOWN else None,
        "public_ip": None,
        "private_ip": None,
        "known_at": ago(900) if state is A.KNOWN else None,
        "last_sent_at": ago(1000) if state is not A.PLANNED else None,
        "empty_listings": 0,
        "last_empty_listing_at": None,
        "deadline_applied": None,
    }
    return Row(state=state, **{**facts, **changes})


def seen(vm_id: str = "i-1", state: VmState = VmState.RUNNING, **changes: Any) -> ListedVm:
    """Genuine, unless a test says otherwise."""
    key = changes.get("key", KEY)
    identity = token_of(LeaseId(key[0]), key[1]) if key is not None else None
    facts: dict[str, Any] = {"vm_id": vm_id, "zone": "z1", "state": state, "key": key, "launch_identity": identity}
    return ListedVm(**{**facts, **changes})


def look(rows: list[Row], *vms: ListedVm, **changes: Any) -> Findings:
    listing = Listing(started_at=NOW, seen=vms, **changes)
    return compare(listing, {one.key: one for one in rows}, token_of=token_of, settle_gap=GAP)


def cases() -> Iterator[tuple[Row, ListedVm]]:
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
    assert not any(one.doomed or one.lost or one.copied for one in found)


@pytest.mark.parametrize("state", [A.PLANNED, A.SENT, A.SETTLING])
def test_the_vm_of_an_unknown_outcome_is_found_in_whatever_state(state: AttemptState) -> None:
    for one, vm in cases():
        if one.state is state:
            assert look([one], vm).matched == [(one, vm)]


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


# --- genuine and copied -----------------------------------------------------------------------------------


@pytest.mark.parametrize("of", [str, launch_name], ids=["token", "name"])
def test_a_genuine_vm_without_a_row_is_lost_while_it_costs_money(of: Any) -> None:
    for state in VmState:
        vm = seen(state=state, launch_identity=of(token_of(*KEY)))
        found = look([], vm)
        assert found.lost == ([vm] if state in ALIVE else [])
        assert [*found.doomed, *found.copied] == []


def test_with_a_row_no_vm_is_lost() -> None:
    assert not any(look([one], vm).lost for one, vm in cases())


def test_a_lost_vm_proves_lost_rows_until_it_was_shown() -> None:
    found = look([], seen("i-1"), seen("i-2", key=(OTHER, 3)))
    assert found.lost_rows(shown_before=()) == [KEY, (OTHER, 3)]
    assert found.lost_rows(shown_before={"i-1"}) == [(OTHER, 3)]


def test_a_vm_of_an_attempt_that_was_never_sent_proves_lost_rows() -> None:
    assert look([row(A.PLANNED)], seen()).lost_rows(shown_before=()) == [KEY]
    for state in (A.SENT, A.SETTLING, A.KNOWN):
        assert not look([row(state)], seen()).lost_rows(shown_before=())


def test_a_vm_that_was_shown_and_has_ended_since_proves_nothing_new() -> None:
    ended = look([row(A.PLANNED)], replace(seen(), state=VmState.GONE))
    assert ended.lost_rows(shown_before=()) == [KEY]
    assert ended.lost_rows(shown_before={"i-1"}) == []
    assert look([row(A.PLANNED)], seen()).lost_rows(shown_before={"i-1"}) == [KEY], "it runs"


@pytest.mark.parametrize("identity", COPIES)
def test_a_copy_is_never_an_attempts_vm_and_never_doomed_without_its_grace(identity: str | None) -> None:
    for one, vm in cases():
        copy = replace(vm, vm_id="i-9", launch_identity=identity)
        found = look([one], copy)
        assert found.copied == ([copy] if copy.state in ALIVE else [])
        assert [*found.matched, *found.doomed, *found.lost, *found.changed] == []


@pytest.mark.parametrize("identity", COPIES)
def test_a_copy_changes_nothing_of_what_is_found_about_the_lease(identity: str | None) -> None:
    """Beside the lease's own VM, and where its VM is missing."""
    for one, vm in cases():
        copy = seen("i-9", launch_identity=identity)
        alone, beside = look([one], vm), look([one], vm, copy)
        assert replace(beside, copied=[]) == replace(alone, copied=[])
        alone, beside = look([one]), look([one], copy)
        assert replace(beside, copied=[]) == alone


def test_a_copy_without_any_row_is_copied() -> None:
    for key in (KEY, None):
        copy = seen(key=key, launch_identity=None)
        assert look([], copy).copied == [copy]


def test_a_vm_that_another_launch_made_is_lost_and_not_ended() -> None:
    """Its tags were edited, or the database was made anew with another token key and the same installation id."""
    another = launch_token(b"another key", INSTALLATION, *KEY)
    for identity, key in product((another, launch_name(another), token_of(LEASE, 2)), (KEY, None)):
        vm = seen("i-9", key=key, launch_identity=identity)
        found = look([row()], vm)
        assert found.lost == [vm]
        assert [*found.doomed, *found.copied] == []


def test_a_vm_that_is_known_by_its_id_stays_the_leases_whatever_its_tags_say() -> None:
    for key, identity in product((KEY, (OTHER, 1), None), (None, token_of(*KEY))):
        found = look([row()], seen(state=VmState.STOPPED, key=key, launch_identity=identity))
        assert [pair[0] for pair in found.changed] == [row()]
        assert [*found.lost, *found.copied, *found.doomed, *found.absent] == []


@given(
    st.lists(
        st.tuples(
            st.sampled_from([*A, None]),
            st.integers(1, 3),
            st.sampled_from([VmState.RUNNING, VmState.PENDING, VmState.STOPPED]),
            st.booleans(),
        ),
        max_size=12,
    )
)
def test_nothing_genuine_is_ended_without_a_row_and_nothing_copied_is_taken_for_a_leases(
    vms: list[tuple[AttemptState | None, int, VmState, bool]],
) -> None:
    """Random rows, VMs and identities: VM `i-N` names attempt n of lease N."""
    rows: list[Row] = []
    shown: dict[str, bool] = {}
    listed: list[ListedVm] = []
    for number, (state, n, vm_state, genuine) in enumerate(vms):
        lease_id = LeaseId(f"lease_{number}")
        if state is not None:
            rows.append(replace(row(state), lease_id=lease_id, n=n, instance_id=f"of-{number}"))
        token = token_of(lease_id, n)
        identity = (token if number % 2 else launch_name(token)) if genuine else COPIES[number % len(COPIES)]
        listed.append(seen(f"i-{number}", vm_state, key=(lease_id, n), launch_identity=identity))
        shown[f"i-{number}"] = genuine
    found = look(rows, *listed)
    assert {vm.vm_id for vm in found.copied} == {vm_id for vm_id, genuine in shown.items() if not genuine}
    taken = [vm for _, vm in found.matched] + [vm for vm, *_ in found.doomed] + found.lost
    assert {vm.vm_id for vm in taken} == {vm_id for vm_id, genuine in shown.items() if genuine}
    assert all(row is not None and row.state in (A.KNOWN, A.REFUSED, A.DEAD) for _, row, _ in found.doomed)
    assert {vm.key for vm in found.lost}.isdisjoint(one.key for one in rows)


# --- deadline tags ----------------------------------------------------------------------------------------


def test_a_deadline_tag_that_is_not_the_one_written_is_told() -> None:
    applied = ahead(3600) + timedelta(microseconds=5)
    one = row(deadline_applied=applied)
    assert not look([one], seen(deadline=ahead(3600))).retagged, "tags hold whole seconds"
    for other in (ahead(3599), ahead(3601), ago(60), None):
        vm = seen(deadline=other)
        assert look([one], vm).retagged == [(one, vm)]
    assert not look([row()], seen(deadline=ago(60))).retagged, "nobody knows what was written"


def test_the_deadline_tag_of_a_vm_that_ends_does_not_matter() -> None:
    for state in VmState:
        told = look([row(deadline_applied=ahead(3600))], seen(state=state, deadline=None)).retagged
        assert bool(told) == (state in ALIVE)


def test_the_tag_of_every_living_vm_of_a_lease_in_doubt_is_told() -> None:
    for state, applied in product(VmState, (None, ahead(3600))):
        one, vm = row(term_in_doubt=True, deadline_applied=applied), seen(state=state, deadline=ahead(3600))
        assert look([one], vm).in_doubt == ([(one, vm)] if state in ALIVE else [])
    assert look([row(A.SENT, term_in_doubt=True)], seen()).in_doubt
    assert not look([row(term_in_doubt=True)], seen("i-9", launch_identity=None)).in_doubt, "a copy promises nothing"


def test_the_deadline_tag_of_a_vm_that_is_found_is_compared_too() -> None:
    for state in (A.PLANNED, A.SENT, A.SETTLING):
        assert look([row(state, deadline_applied=ahead(60))], seen(deadline=ahead(3600))).retagged


def test_a_listed_vm_is_never_absent_or_counted_as_nothing() -> None:
    for one, vm in cases():
        found = look([one], vm)
        assert not found.empty
        assert not found.absent or vm.vm_id != one.instance_id


# --- what a listing does not show -------------------------------------------------------------------------


def missing(one: Row, *vms: ListedVm, **changes: Any) -> Findings:
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
        assert [pair for pair in together.matched if pair[0] == one] == alone.matched
        assert [pair for pair in together.changed if pair[0] == one] == alone.changed
        assert [entry for entry in together.doomed if entry[1] == one] == alone.doomed
        assert [absent for absent in together.absent if absent == one] == alone.absent
        assert [empty for empty in together.empty if empty == one] == alone.empty


def test_anothers_vm_says_nothing_about_a_lease() -> None:
    stranger = seen("i-9", key=(OTHER, 1))
    assert look([row()], stranger).absent == [row()]
    assert look([row()], stranger).lost == [stranger]


def test_a_row_out_of_sight_hides_none_of_the_others() -> None:
    hidden, missing = row(zone="away"), row(n=2, instance_id="i-2")
    assert look([hidden, missing], unreachable=frozenset({"away"})).absent == [missing]


def test_a_vm_without_a_key_is_no_row_s() -> None:
    assert look([row()], seen(), seen("i-9", key=None)).changed == []
