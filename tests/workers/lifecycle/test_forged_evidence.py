"""A hostile tenant: what its VMs do or report moves nothing that other tenants share (docs/trust.md)."""

from collections.abc import Callable
from typing import Any

import pytest
from sqlalchemy import select, update

from app.db.leases import proofs
from app.db.schema.tables import attempt, bad_gpu, offering
from app.domain.ids import LeaseId
from app.domain.leases import LeaseState
from app.domain.provider_messages import _BY_CODE
from tests.workers.fleet import ACCOUNT, NEVER, REGION, Fleet
from tests.workers.proofs import BROKEN, drive_to_wait, prove
from workers.observation.inventory import take_inventory

SHARED = select(offering.c.zone, offering.c.cool_until, offering.c.refusals).order_by(offering.c.zone)


def shared(fleet: Fleet) -> list[tuple[Any, ...]]:
    """What all tenants see of the offerings, without what they teach by launching."""
    return [tuple(row) for row in fleet.runtime.database.all(SHARED)]


def known_bad(fleet: Fleet, region: str = REGION) -> list[str]:
    """The GPUs with which the next VM of the fleet's tenant is rejected."""
    asked = proofs.known_bad("aws", region, fleet.tenant_id, [str(BROKEN["uuid"]), "GPU-of-another"])
    return [row.uuid for row in fleet.runtime.database.all(asked)]


def cooling_for(fleet: Fleet) -> list[str]:
    """The zones whose offerings are in cool-off for the fleet's tenant."""
    fleet.runtime.catalogue.forget()
    seen = (one.as_seen_by(fleet.tenant_id, fleet.now()) for one in fleet.runtime.catalogue.offerings())
    return [one.key.zone for one in seen if one.cooling(fleet.now())]


def rejected(fleet: Fleet, *gpus: dict[str, Any]) -> str:
    """A lease of the fleet's tenant whose first VM reports broken GPUs, or the given ones. Returns the zone."""
    lease_id = fleet.create(wait_seconds=600)
    drive_to_wait(fleet, lease_id)
    prove(fleet, lease_id, *(gpus or [BROKEN]))
    fleet.drive(lambda: len(fleet.attempts(lease_id)) > 1)
    fleet.end(lease_id)
    fleet.drive_to(lease_id, "released")
    return str(fleet.attempts(lease_id)[0].zone)


def test_broken_gpus_are_the_word_of_one_tenant_until_a_second_one_says_the_same(
    make_fleet: Callable[..., Fleet],
) -> None:
    fleet = make_fleet(agent="on", proof_seconds=120.0)
    before = shared(fleet)
    with fleet.other_tenant():
        zones = [rejected(fleet) for _ in range(3)]
        assert (known_bad(fleet), cooling_for(fleet)) == ([BROKEN["uuid"]], sorted(set(zones))), (
            "its own VMs go elsewhere"
        )
    assert (shared(fleet), known_bad(fleet), cooling_for(fleet)) == (before, [], [])
    zone = rejected(fleet)
    assert zone == zones[0], "nobody else is kept from the best offering"
    with fleet.other_tenant():
        assert known_bad(fleet) == [BROKEN["uuid"]]
        assert known_bad(fleet, "eu-west-1") == [], "a GPU does not leave its region"
        assert cooling_for(fleet) == [zone]
    assert {row[:3] for row in fleet.cooling()} == {(zone, "gpu_check_failed", "remap_failed")}


def test_a_second_opinion_counts_for_an_hour(make_fleet: Callable[..., Fleet]) -> None:
    fleet = make_fleet(agent="on", proof_seconds=120.0)
    with fleet.other_tenant():
        rejected(fleet)
    long_ago = {"until": "2020-01-01T00:00:00+00:00"}
    fleet.runtime.database.run(update(offering).values(suspicion=offering.c.suspicion.concat(long_ago)))
    rejected(fleet)
    assert fleet.cooling() == []


def test_a_report_of_more_gpus_than_the_vm_has_is_remembered_for_none(make_fleet: Callable[..., Fleet]) -> None:
    fleet = make_fleet(agent="on", proof_seconds=120.0)
    rejected(fleet, BROKEN, {**BROKEN, "uuid": "GPU-of-another"})
    assert fleet.runtime.database.all(select(bad_gpu.c.uuid)) == []


def test_a_vm_that_its_tenant_keeps_from_getting_ready_cools_nothing_off_for_others(
    make_fleet: Callable[..., Fleet],
) -> None:
    fleet = make_fleet(boot_timeout=1.0)
    fleet.sim.fault("DescribeInstanceStatus", "lose_reply", times=None)
    before = shared(fleet)
    with fleet.other_tenant():
        assert fleet.drive_to(fleet.create(), "failed").reason["code"] == "boot_timeout"
        assert len(cooling_for(fleet)) == 1
    assert (shared(fleet), cooling_for(fleet)) == (before, [])
    fleet.drive_to(fleet.create(), "failed")
    assert {row[1] for row in fleet.cooling()} == {"boot_timeout"}


OWN = {code: "took the spot VM back" in sentence for code, sentence in _BY_CODE.items()}
"""By the provider's code: whether the end of the VM was the provider's own doing."""


def after_their_end(fleet: Fleet, state: LeaseState, wish: str, *codes: str | None) -> list[tuple[Any, ...]]:
    """VMs of leases in this state end, each with one of the provider's codes. Returns what was shared before."""
    leases = {fleet.create(on_interruption=wish, wait_seconds=600): code for code in codes}

    def are_ready() -> bool:
        return fleet.are(list(leases), state) and all(fleet.attempts(one)[0].instance_id for one in leases)

    fleet.drive(are_ready)
    before = shared(fleet)
    for lease_id, code in leases.items():
        vm_reason = {"code": code, "message": "told", "interrupted": OWN.get(code or "", False), "refusal": None}
        fact = {"vm_state": "gone", "vm_reason": vm_reason}
        fleet.sim.stop(fleet.attempts(lease_id)[0].instance_id)
        fleet.runtime.database.run(update(attempt).where(attempt.c.lease_id == lease_id).values(**fact))
        fleet.make_due(lease_id)
    fleet.drive(lambda: all(fleet.attempts(one)[0].ended_at is not None for one in leases))
    return before


@pytest.mark.parametrize("state", [LeaseState.PROVISIONING, LeaseState.BOOTING, LeaseState.ACTIVE])
@pytest.mark.parametrize("wish", ["end", "replace"])
def test_only_what_the_provider_names_as_its_own_doing_cools_an_offering_off(
    fleet: Fleet, state: LeaseState, wish: str
) -> None:
    if state is LeaseState.PROVISIONING:
        fleet.sim.settings(boot_seconds=NEVER)
    others = [code for code, own in OWN.items() if not own]
    assert after_their_end(fleet, state, wish, *others, "SomethingNew", None) == shared(fleet)
    for code in [code for code, own in OWN.items() if own]:
        after_their_end(fleet, state, wish, code)
        assert {row[1] for row in fleet.cooling()} == {"interrupted"}, code
        fleet.end_cool_offs()


def end_all(fleet: Fleet, leases: list[LeaseId]) -> None:
    for lease_id in leases:
        fleet.sim.stop(fleet.attempts(lease_id)[0].instance_id)


def test_a_tenant_that_ends_all_its_vms_brakes_nobody_elses(fleet: Fleet) -> None:
    fleet.sim.settings(terminated_visible_seconds=0)
    own = [fleet.create() for _ in range(2)]
    with fleet.other_tenant():
        hostile = [fleet.create() for _ in range(12)]
    fleet.drive_all_to([*own, *hostile], "active")
    end_all(fleet, [own[0], *hostile])
    fleet.wait_for(lambda: len(fleet.vms()) == 1)
    take_inventory(fleet.runtime, ACCOUNT, REGION)
    fleet.step()
    fleet.drive_to(own[0], "released", seconds=1)
    assert fleet.are(hostile, "active"), "its own wait for two more cycles"
    assert fleet.region().last_error["class"] == "MassLoss"
