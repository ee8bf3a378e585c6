"""A lease's life through the real protocol: database, adapter, wire."""

from base64 import b64decode
from collections.abc import Callable
from gzip import decompress
from typing import Any

import psycopg
import pytest
from psycopg.pq import TransactionStatus
from sqlalchemy.dialects.postgresql.psycopg import PGDialect_psycopg

from app.local.waiting import wait_until
from tests.workers.fleet import Fleet
from tests.workers.providers.aws.test_userdata import script


def test_a_lease_becomes_active_and_then_released(fleet: Fleet) -> None:
    lease_id = fleet.create(script="#!/bin/sh\necho hello\n")
    active = fleet.drive_to(lease_id, "active", "failed")
    assert active.state == "active"
    (vm,) = fleet.vms()
    assert vm["tags"]["gpulease-lease"] == lease_id
    assert vm["tags"]["gpulease-attempt"] == "1"
    assert active.connection["public_ip"]
    assert active.rate_per_hour > 0
    fleet.end(lease_id)
    ended = fleet.drive_to(lease_id, "released", "failed")
    assert ended.state == "released"
    assert ended.billing_started_at <= ended.billing_ended_at <= ended.provider_gone_at
    assert fleet.vms() == []
    assert fleet.used() == {}
    assert fleet.events(lease_id) == [
        "lease.provisioning",
        "attempt.launched",
        "lease.booting",
        "lease.active",
        "lease.releasing",
        "attempt.dead",
        "lease.released",
    ]


def test_a_vm_is_shown_from_the_answer_to_its_create_call_on(fleet: Fleet) -> None:
    fleet.sim.settings(boot_seconds=60)
    lease_id = fleet.create()
    fleet.step()
    launched = fleet.lease(lease_id)
    (vm,) = fleet.vms()
    assert (launched.state, launched.placement["instance_id"]) == ("provisioning", vm["id"])
    assert launched.first_attempt_at <= launched.launched_at <= fleet.now()


def test_a_vm_that_is_well_lives_though_nobody_moves_its_lease_for_long(make_fleet: Callable[..., Fleet]) -> None:
    fleet = make_fleet(launch_timeout=0.5, boot_timeout=0.5)
    fleet.sim.settings(boot_seconds=0.1)
    lease_id = fleet.create()
    while not fleet.vms():
        fleet.step()
    started = fleet.runtime.monotonic()

    def seen_to_be_well_after_all_its_time() -> bool:
        fleet.observe()
        return fleet.attempts(lease_id)[0].ready and fleet.runtime.monotonic() - started > 2

    assert wait_until(seen_to_be_well_after_all_its_time, timeout=30, poll=0.1)
    assert fleet.lease(lease_id).state == "provisioning"
    assert fleet.drive_to(lease_id, "active", "failed").state == "active"


def test_a_vm_starts_with_the_script_of_its_own_lease(fleet: Fleet) -> None:
    fleet.create(script="#!/bin/sh\necho somebody else\n")
    lease_id = fleet.create(script="#!/bin/sh\necho hello\n")
    fleet.step()
    (made,) = fleet.attempts(lease_id)
    assert script(decompress(b64decode(made.params["UserData"])).decode()) == "#!/bin/sh\necho hello\n"


def test_a_plain_life_rolls_no_transaction_back(fleet: Fleet, monkeypatch: pytest.MonkeyPatch) -> None:
    """psycopg forgets all prepared statements of a connection at a rollback."""
    in_transaction: list[bool] = []

    def roll_back(_dialect: Any, pooled: Any) -> None:
        driver: psycopg.Connection = getattr(pooled, "driver_connection", pooled)
        in_transaction.append(driver.info.transaction_status != TransactionStatus.IDLE)
        driver.rollback()

    monkeypatch.setattr(PGDialect_psycopg, "do_rollback", roll_back)
    lease_id = fleet.active()
    fleet.end(lease_id)
    fleet.drive_to(lease_id, "released")
    assert not any(in_transaction)
