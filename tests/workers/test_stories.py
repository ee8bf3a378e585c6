"""Whole stories of leases, compared with those kept in `stories/`: every event, column and step, for what tests of one thing leave out.

`GPULEASE_STORIES=keep make test ARGS="tests/workers/test_stories.py"` writes them anew: read the difference before you keep it.
"""

import json
import os
import re
from collections.abc import Callable
from datetime import datetime
from decimal import Decimal
from itertools import groupby
from pathlib import Path
from typing import Any

import pytest
import structlog
from sqlalchemy import Integer, func, or_, select
from structlog.typing import EventDict

from app.db.leases import reboots
from app.db.schema.tables import event, lease_console, offering, provider_bucket, quota
from app.domain.ids import LeaseId
from cloudsim.testing import Control
from tests.workers.fleet import Fleet
from workers.lifecycle import reconciler
from workers.lifecycle.steps import console, deadline

KEPT = Path(__file__).with_name("stories")
NAMES = {
    re.compile(r"\b(lease|attempt|tenant|event)_[0-9a-z]{26}\b"): r"\1_…",
    re.compile(r"\bi-[0-9a-f]{17}\b"): "i-…",
    re.compile(r"\bgpl-[0-9a-f]{12}\b"): "gpl-…",
    re.compile(r"\b[0-9a-f]{64}\b"): "a token",
    re.compile(r"^\d{10}$"): "a time",
    re.compile(r"^H4sI.*"): "user data",
    re.compile(r"\b(198\.18|172\.31)(\.\d+){2}\b"): r"\1.…",
}
BY_CHANCE = {"row_id", "sequence", "version", "wake_count", "empty_listings", "cost_closed"}
"""Columns that depend on how often somebody looked, or on fractions of seconds."""


@pytest.fixture(autouse=True)
def ends_slowly(sim: Control) -> None:
    """A VM ends so slowly that the lease is seen before nothing of it is left, on a busy machine too."""
    sim.settings(shutdown_seconds=2.0, cleanup_seconds=2.0)


def plain(value: Any) -> Any:
    """What is another in each run, by its kind."""
    match value:
        case dict():
            return {key: plain(one) for key, one in value.items() if key not in BY_CHANCE}
        case list():
            return [plain(one) for one in value]
        case datetime():
            return "a time"
        case bytes():
            return "bytes"
        case Decimal():
            return str(value.normalize())
        case str():
            for pattern, name in NAMES.items():
                value = pattern.sub(name, value)
    return value


def rows(found: list[Any]) -> list[Any]:
    return [plain({name: value for name, value in row._mapping.items() if value is not None}) for row in found]


def steps(lines: list[EventDict]) -> list[dict[str, Any]]:
    """What the reconciler told, once where it repeats itself."""
    return [line for line, _ in groupby(plain(lines))]


def story(fleet: Fleet, lease_id: LeaseId, lines: list[EventDict]) -> dict[str, Any]:
    """All that is stored about a lease, what was learnt from it, and how it was moved."""
    everything = fleet.runtime.database.all
    return {
        "steps": steps(lines),
        "events": rows(everything(select(event).where(event.c.lease_id == lease_id).order_by(event.c.lease_sequence))),
        "lease": rows([fleet.lease(lease_id)]),
        "attempts": rows(fleet.attempts(lease_id)),
        "offerings": rows(everything(LEARNT)),
        "quota": rows(everything(select(quota.c.resource, quota.c.used).order_by(quota.c.resource))),
        "consoles": len(everything(select(lease_console))),
        "buckets": rows(everything(select(*BUCKET).order_by(provider_bucket.c.name))),
    }


def about(left: Any) -> Any:
    """Seconds from now, near enough to tell one pause from another."""
    return (func.round(func.extract("epoch", left - func.now()) / 30) * 30).cast(Integer)


BUCKET = (provider_bucket.c.name, (provider_bucket.c.slow_factor > 1).label("slow"))
LEARNT = (
    select(
        *(offering.c[name] for name in ("zone", "instance_type", "market", "launches", "refusals")),
        *(offering.c[name] for name in ("cool_reason", "cool_code", "cool_count")),
        about(offering.c.cool_until).label("cools_for"),
        offering.c.ready_seconds.is_not(None).label("ready_seconds"),
    )
    .where(or_(offering.c.launches > 0, offering.c.refusals > 0, offering.c.cool_until.is_not(None)))
    .order_by(offering.c.zone)
)


Same = Callable[[str, Fleet, LeaseId], None]


@pytest.fixture
def same_as_kept(monkeypatch: pytest.MonkeyPatch, sim: Control) -> Same:
    """Compares a story so far with the kept one of the name, at a cloud whose VMs take their time to boot."""
    sim.settings(boot_seconds=0.1)
    told = structlog.testing.LogCapture()
    own = structlog.wrap_logger(
        None,
        processors=[structlog.contextvars.merge_contextvars, told],
        wrapper_class=structlog.make_filtering_bound_logger("info"),
    )
    for module in (reconciler, console, deadline):
        monkeypatch.setattr(module, "log", own)
    return lambda name, fleet, lease_id: compare(name, story(fleet, lease_id, told.entries))


def compare(name: str, told: dict[str, Any]) -> None:
    kept = KEPT / f"{name}.json"
    written = json.dumps(told, indent=1, sort_keys=True, ensure_ascii=False) + "\n"
    if os.environ.get("GPULEASE_STORIES") == "keep":
        kept.parent.mkdir(exist_ok=True)
        kept.write_text(written, encoding="utf-8")
    assert written.splitlines() == kept.read_text(encoding="utf-8").splitlines()


def reboot(fleet: Fleet, lease_id: LeaseId) -> None:
    fleet.runtime.database.run(reboots.request(lease_id, "req_1", within=fleet.tenant_id))


def test_a_plain_life(make_fleet: Callable[..., Fleet], same_as_kept: Same) -> None:
    fleet = make_fleet(provider_rate_limits=True, public_url="https://gpulease.example")
    fleet.observe()
    lease_id = fleet.create(
        script="#!/bin/sh\necho hello\n",
        labels={"team": "vision"},
        ssh_public_keys=["ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIGEgc2ltdWxhdGVkIGtleSBvZiBub2JvZHkgYXQgYWxs a@b"],
        allowed_cidrs=["198.51.100.0/24"],
    )
    fleet.drive_to(lease_id, "active", "failed")
    same_as_kept("active", fleet, lease_id)
    fleet.extend(lease_id, 7200)
    reboot(fleet, lease_id)
    fleet.drive(lambda: "lease.rebooted" in fleet.events(lease_id))
    fleet.end(lease_id)
    fleet.drive_to(lease_id, "released", "failed")
    same_as_kept("released", fleet, lease_id)


def test_a_spot_vm_taken_back_with_no_other_to_be_had(fleet: Fleet, same_as_kept: Same) -> None:
    lease_id = fleet.create(market="spot", on_interruption="replace", wait_seconds=7200)
    active = fleet.drive_to(lease_id, "active")
    fleet.sim.capacity(0)
    fleet.sim.interrupt(active.placement["instance_id"], 0)
    fleet.drive_to(lease_id, "queued")
    fleet.drive(lambda: fleet.attempts(lease_id)[0].clean)
    same_as_kept("replacement_waited_for", fleet, lease_id)


def test_a_spot_vm_taken_back_and_replaced(fleet: Fleet, same_as_kept: Same) -> None:
    lease_id = fleet.create(market="spot", on_interruption="replace")
    active = fleet.drive_to(lease_id, "active")
    fleet.sim.interrupt(active.placement["instance_id"], 0)
    fleet.drive(lambda: fleet.events(lease_id).count("lease.active") > 1)
    fleet.drive(lambda: fleet.attempts(lease_id)[0].clean)
    same_as_kept("replaced", fleet, lease_id)


def test_a_spot_vm_taken_back_that_nobody_wants_replaced(fleet: Fleet, same_as_kept: Same) -> None:
    lease_id = fleet.create(market="spot")
    active = fleet.drive_to(lease_id, "active")
    fleet.sim.interrupt(active.placement["instance_id"], 0)
    fleet.observe()
    fleet.drive_to(lease_id, "failed", "released")
    same_as_kept("interrupted", fleet, lease_id)


def test_no_capacity(fleet: Fleet, same_as_kept: Same) -> None:
    fleet.sim.capacity(0)
    lease_id = fleet.create()
    fleet.drive_to(lease_id, "failed", "released")
    same_as_kept("no_capacity", fleet, lease_id)


def test_capacity_that_is_missing_after_the_launch(fleet: Fleet, same_as_kept: Same) -> None:
    fleet.sim.settings(boot_seconds=0.5)  # long enough to be seen as it starts
    fleet.sim.fault("boot", "error", code="Server.InsufficientInstanceCapacity")
    lease_id = fleet.create()
    fleet.drive_to(lease_id, "active", "failed")
    fleet.drive(lambda: fleet.attempts(lease_id)[0].clean)
    same_as_kept("refused_after_the_launch", fleet, lease_id)


def test_a_create_that_was_never_answered(fleet: Fleet, same_as_kept: Same) -> None:
    fleet.sim.fault("RunInstances", "error", code="InternalError", times=None)
    lease_id = fleet.create()
    fleet.drive(lambda: any(a.state == "settling" for a in fleet.attempts(lease_id)))
    fleet.end(lease_id)
    fleet.drive_to(lease_id, "released", "failed")
    same_as_kept("never_answered", fleet, lease_id)


def test_a_vm_that_somebody_else_ends(fleet: Fleet, same_as_kept: Same) -> None:
    lease_id = fleet.create()
    active = fleet.drive_to(lease_id, "active")
    fleet.sim.stop(active.placement["instance_id"])
    fleet.observe()
    fleet.drive_to(lease_id, "released", "failed")
    same_as_kept("ended_behind_our_back", fleet, lease_id)


def test_a_vm_that_never_gets_ready(make_fleet: Callable[..., Fleet], same_as_kept: Same) -> None:
    fleet = make_fleet(boot_timeout=0.5)
    fleet.sim.fault("boot", "hang", times=None)
    lease_id = fleet.create()
    fleet.drive_to(lease_id, "released", "failed")
    same_as_kept("never_ready", fleet, lease_id)


def test_a_lease_whose_time_is_over(fleet: Fleet, same_as_kept: Same) -> None:
    lease_id = fleet.create()
    fleet.drive_to(lease_id, "active")
    fleet.extend(lease_id, -1)
    fleet.make_due(lease_id)
    fleet.drive_to(lease_id, "released", "failed")
    same_as_kept("expired", fleet, lease_id)


def test_a_reboot_that_is_refused(fleet: Fleet, same_as_kept: Same) -> None:
    lease_id = fleet.create()
    fleet.drive_to(lease_id, "active")
    fleet.sim.fault("RebootInstances", "error", code="IncorrectInstanceState")
    reboot(fleet, lease_id)
    fleet.drive(lambda: "lease.reboot_failed" in fleet.events(lease_id))
    same_as_kept("reboot_refused", fleet, lease_id)


def test_a_cloud_that_throttles_once(make_fleet: Callable[..., Fleet], same_as_kept: Same) -> None:
    fleet = make_fleet(provider_rate_limits=True)
    fleet.observe()
    for operation in ("RunInstances", "CreateTags", "RebootInstances", "TerminateInstances"):
        fleet.sim.fault(operation, "throttle", times=1)
    lease_id = fleet.create()
    fleet.drive_to(lease_id, "active")
    fleet.extend(lease_id, 7200)
    fleet.make_due(lease_id)
    fleet.drive(lambda: fleet.sim.calls().get("CreateTags", 0) == 2)
    reboot(fleet, lease_id)
    fleet.drive(lambda: "lease.rebooted" in fleet.events(lease_id))
    fleet.end(lease_id)
    fleet.drive_to(lease_id, "released", "failed")
    same_as_kept("throttled", fleet, lease_id)
