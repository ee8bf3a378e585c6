"""A lease's life through the real protocol: database, adapter, wire."""

from tests.workers.fleet import Fleet


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
