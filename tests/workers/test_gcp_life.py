"""Leases at Compute Engine, where a refusal comes late and a VM that is gone shows no more."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from app.settings import load_settings
from cloudsim.testing import Control
from tests.workers.fleet import Fleet
from tests.workers.providers.gcp.accounts import EMAIL, PROJECT, REGION, key_file
from tests.workers.virtual_time import VirtualTime
from workers.observation.leftovers import sweep_leftovers
from workers.process.bootstrap import build_runtime

ACCOUNT = "sim-gcp"
GCP: dict[str, Any] = {"provider": "gcp"}
WISH: dict[str, Any] = {"gpu": {"model": "L4", "count": 1, "memory_gib": None}, "instance_types": ["g2-standard-4"]}


@pytest.fixture
def fleet(worker_settings: dict[str, Any], sim: Control, virtual_time: VirtualTime, tmp_path: Path) -> Iterator[Fleet]:
    config = tmp_path / "gpulease.toml"
    config.write_text(
        f'[[accounts]]\nprovider = "gcp"\nname = "{ACCOUNT}"\nproject = "{PROJECT}"\nregions = ["{REGION}"]\n'
        f'endpoint_url = "{sim.url}"\ncredentials_file = "{key_file(tmp_path, sim.url, EMAIL)}"\n'
    )
    runtime = build_runtime(
        load_settings(**worker_settings, config=config),
        monotonic=virtual_time.monotonic,
    )
    fleet = Fleet(runtime, sim, observe=True, account=ACCOUNT, region=REGION, virtual_time=virtual_time)
    yield fleet
    fleet.close()


def test_late_refusals_replacement_and_the_end(fleet: Fleet) -> None:
    """One story, because each database costs seconds."""
    fleet.sim.settings(refusal_seconds=0.3)
    fleet.sim.capacity(0, zone=f"{REGION}-a", **GCP)
    fleet.sim.capacity(0, zone=f"{REGION}-b", **GCP)
    lease_id = fleet.create(**WISH, market="spot", on_interruption="replace", allowed_cidrs=["203.0.113.0/24"])
    fleet.drive_to(lease_id, "active")
    first, second, third = fleet.attempts(lease_id)
    assert {first.zone, second.zone} == {f"{REGION}-a", f"{REGION}-b"}
    assert [first.error["code"], second.error["code"]] == ["ZONE_RESOURCE_POOL_EXHAUSTED"] * 2
    assert [one.state for one in (first, second, third)] == ["refused", "refused", "known"]

    fleet.sim.capacity(None, **GCP)
    fleet.end_cool_offs()
    fleet.sim.interrupt(third.instance_id.rpartition(":")[2], 0.0, **GCP)
    fleet.drive(lambda: len(fleet.attempts(lease_id)) > 3 and fleet.lease(lease_id).state == "active")
    fourth = fleet.attempts(lease_id)[-1]
    (vm,) = fleet.vms()
    assert fourth.instance_id.endswith(vm["id"])

    fleet.end(lease_id)
    assert fleet.drive_to(lease_id, "released", "failed").state == "released"
    assert fleet.vms() == []
    fleet.drive(lambda: sweep_leftovers(fleet.runtime, ACCOUNT, REGION) == 0 and not fleet.sim.resources())
    assert fleet.used() == {}


def test_leases_of_a_tenant_are_launched_with_one_call(fleet: Fleet) -> None:
    """The answer to the call is lost, and the VMs have no labels of their own yet. Whoever finds a VM labels it."""
    leases = [fleet.create(**WISH, name=f"t{number}") for number in range(4)]
    fleet.sim.fault("instances.bulkInsert", "lose_reply", times=1, **GCP)
    fleet.drive_all_to(leases, "active")
    assert [len(fleet.attempts(lease_id)) for lease_id in leases] == [1] * 4
    assert len(fleet.sim.instances()) == 4
    assert fleet.sim.calls("gcp").get("instances.insert", 0) == 0
    fleet.drive_to_own_tags()
    assert (fleet.orphans(), fleet.hold()) == ([], None)
    assert {vm["tags"]["gpulease-lease"] for vm in fleet.vms()} == set(leases)
    for lease_id in leases:
        fleet.end(lease_id)
    fleet.drive_all_to(leases, "released")
    assert (fleet.sim.resources(), fleet.used()) == ([], {})
