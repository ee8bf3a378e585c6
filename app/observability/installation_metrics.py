"""Metrics of the whole installation, computed from database rows. Every API process returns the same values.

A value without data is 0, and its sample stays present for every known location, state and cause. An alert that
compares the value therefore always has a series.
"""

import math
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from prometheus_client import generate_latest
from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from app.db.fleet.jobs import DEADMAN
from app.db.operations.launch_outcomes import SUCCEEDED
from app.domain.brakes import OF_ACCOUNT, OF_INSTALLATION, OF_REGION
from app.domain.cool_off import REFUSAL_REASONS, refusal_reason
from app.domain.leases import TERMINAL, LeaseState
from app.services.metrics import MetricsSnapshot

Sample = tuple[tuple[str, ...], float]

_PLACE = ("account", "region")
_CAUSES = ("copied_tags", "ended_lease", "lost_row", "other_attempt")
_ACCOUNT_STATES = ("unchecked", "ok", "failing", "failing_catalogue", "disabled", "draining")
_STUCK = ("releasing", "settling", "provisioning", "booting", "deadline")
_KINDS = ("worker", "inventory")
_REFUSALS = tuple(sorted(REFUSAL_REASONS))
_LIVE_STATES = tuple(str(state) for state in LeaseState if state not in TERMINAL)


@dataclass(frozen=True, slots=True)
class Family:
    """One gauge. `meaning` includes the unit."""

    name: str
    meaning: str
    labels: tuple[str, ...] = ()


DATABASE_UP = Family(
    "gpulease_database_up",
    ("1 when the database answered this scrape, else 0. At 0, all further metrics of the installation are missing."),
)
FAMILIES = (
    Family("gpulease_scrape_seconds", "Seconds that reading these metrics from the database took."),
    Family("gpulease_clock_error_seconds", "Seconds by which the clock of this process's host differs from that of the database."),
    Family("gpulease_orphan_vm_seconds", "Age in seconds of the oldest VM that belongs to no lease: since the end of its own attempt, else since its first sighting.", (*_PLACE, "cause")),
    Family("gpulease_orphan_vms", "VMs that belong to no lease.", (*_PLACE, "cause")),
    Family("gpulease_unlisted_charges", "Resources with this installation's tag that providers charged and that belong to no lease, by the imports of this month and the one before."),
    Family("gpulease_ghost_lease_seconds", "Seconds since the last sighting of the VM, for the oldest lease that is active or billed without a VM.", _PLACE),
    Family("gpulease_ghost_leases", "Leases that are active or billed without a VM.", _PLACE),
    Family("gpulease_settling_age_seconds", "Seconds since gpulease stopped retrying the oldest create of unknown outcome and only looks it up.", _PLACE),
    Family("gpulease_settling_attempts", "Creates of unknown outcome that gpulease no longer retries and only looks up.", _PLACE),
    Family("gpulease_gc_last_complete_age_seconds", "Seconds since the last complete listing of a location began, or since its account was added.", _PLACE),
    Family("gpulease_listing_seconds", "Seconds that the last listing took.", _PLACE),
    Family("gpulease_listed_vms", "VMs in the last listing.", _PLACE),
    Family("gpulease_quota_drift", "Quota rows whose use differs from the sum over leases. Must be 0."),
    Family("gpulease_invariant_violations", "Violations found by the last check of an invariant. Must be 0.", ("check",)),
    Family("gpulease_invariant_check_age_seconds", "Seconds since the last check of the invariants; +Inf: never."),
    Family("gpulease_queue_age_seconds", "Seconds that the oldest lease in `queued` has waited for a worker or for capacity."),
    Family("gpulease_overdue_leases", "Due leases that no worker has claimed."),
    Family("gpulease_overdue_seconds", "Seconds that the oldest due lease has waited for a worker."),
    Family("gpulease_unnumbered_event_seconds", "Seconds that the oldest event has waited for its number. Until then no reader, stream or webhook sees it."),
    Family("gpulease_webhook_overdue_seconds", "Seconds that the webhook that waits longest has waited for a worker, slow receivers excepted."),
    Family("gpulease_releasing_age_seconds", "Seconds since the release request of the oldest lease in `releasing`."),
    Family("gpulease_leases", "Leases by state, without ended leases.", ("state",)),
    Family("gpulease_stuck_leases", "Leases that take too long, by kind as in GET /v1/ops/summary.", ("kind",)),
    Family("gpulease_vms", "Running VMs of leases.", ("provider", *_PLACE, "market", "gpu_model")),
    Family("gpulease_gpus", "GPUs of running VMs of leases.", ("provider", *_PLACE, "market", "gpu_model")),
    Family("gpulease_spend_per_hour", "Billed rate of these VMs in USD per hour.", ("provider", *_PLACE, "market", "gpu_model")),
    Family("gpulease_offerings", "Offerings in the catalogue, including those in cool-off.", ("provider", *_PLACE)),
    Family("gpulease_offerings_cooling_off", "Offerings in cool-off, by reason.", ("provider", *_PLACE, "reason")),
    Family("gpulease_recent_launches", "Launches of the last hour by outcome: `succeeded`, or the reason of the refusal as in `availability` of an offering.", ("provider", *_PLACE, "outcome")),
    Family("gpulease_refused_launches", "Launches of the last hour since the last one that succeeded there, by the reason of the refusal.", ("provider", *_PLACE, "reason")),
    Family("gpulease_account_state", "1 for the current state of an account, 0 for the other states.", ("provider", "account", "state")),
    Family("gpulease_account_blocked", "1 while the provider refuses every launch of the account in the region.", ("provider", *_PLACE)),
    Family("gpulease_account_cordoned", "1 when an operator has cordoned the account.", ("provider", "account")),
    Family("gpulease_account_failed_checks", "Failed checks of the last run of the account's checks.", ("provider", "account")),
    Family("gpulease_brake_active", "1 while a brake is set, by its name in docs/operations.md. account and region are empty for brakes of the installation, region for those of an account.", ("brake", *_PLACE)),
    Family("gpulease_hold", "1 while the installation is on hold. On hold, gpulease launches, expires, ends and closes nothing."),
    Family("gpulease_launches_stopped", "1 while operators have stopped all launches."),
    Family("gpulease_processes", "Processes that reported within the last 15 seconds.", ("kind",)),
    Family("gpulease_lost_hosts", "Hosts whose processes of a kind ended within the last day without a clean stop, and where none of that kind reports.", ("kind",)),
    Family("gpulease_process_heartbeat_age_seconds", "Seconds since the last report of a process of this kind; +Inf: never.", ("kind",)),
    Family("gpulease_deadman_heartbeat_age_seconds", "Seconds since the last report of `gpulease deadman`; +Inf: never; missing if no report exists and none is required."),
    Family("gpulease_job_last_ok_age_seconds", "Seconds since the last successful run of a periodic job. account and region are empty for jobs without them.", ("kind", *_PLACE)),
    Family("gpulease_job_interval_seconds", "Seconds from the start of the job's last successful run to its next one, or its longest interval.", ("kind", *_PLACE)),
)  # fmt: skip
"In the order of the output."


def text_of(snapshot: MetricsSnapshot) -> bytes:
    """The Prometheus exposition format. While the database is unavailable, only the database metric."""
    return generate_latest(_SnapshotCollector(snapshot))


class _SnapshotCollector(Collector):
    def __init__(self, snapshot: MetricsSnapshot) -> None:
        self._snapshot = snapshot

    def collect(self) -> Iterator[Metric]:
        """All metric families. A family without samples appears with its name only."""
        snapshot = self._snapshot
        yield _family(DATABASE_UP, [((), float(snapshot.complete))])
        if snapshot.complete:
            samples = _samples(snapshot)
            for family in FAMILIES:
                yield _family(family, samples[family.name])


def _family(family: Family, samples: Iterable[Sample]) -> Metric:
    made = GaugeMetricFamily(family.name, family.meaning, labels=family.labels)
    for labels, value in samples:
        made.add_metric(labels, value)
    return made


def _samples(snapshot: MetricsSnapshot) -> dict[str, list[Sample]]:
    rows = snapshot.rows
    places = [(row.account, row.region) for row in rows["places"]]
    samples: dict[str, list[Sample]] = {
        "gpulease_scrape_seconds": [((), snapshot.seconds)],
        "gpulease_clock_error_seconds": [((), snapshot.clock_error)],
        **_observation(rows, places),
        **_leases(rows),
        **_fleet(rows),
        **_launches(rows),
        "gpulease_brake_active": _brakes(rows, places),
        **_running(rows, needs_deadman=snapshot.needs_deadman),
    }
    return samples


def _observation(rows: Any, places: list[tuple[str, str]]) -> dict[str, list[Sample]]:
    causes = [(*place, cause) for place in places for cause in _CAUSES]
    orphans = {(row.account, row.region, row.cause): row for row in rows["orphans"]}
    ghosts = {(row.account or "", row.region or ""): row for row in rows["ghosts"]}
    settling = {(row.account, row.region): row for row in rows["settling"]}
    return {
        "gpulease_orphan_vm_seconds": _filled(causes, {key: row.age for key, row in orphans.items()}),
        "gpulease_orphan_vms": _filled(causes, {key: row.vms for key, row in orphans.items()}),
        "gpulease_unlisted_charges": [((), row.resources) for row in rows["invoices"]],
        "gpulease_ghost_lease_seconds": _filled(places, {key: row.age for key, row in ghosts.items()}),
        "gpulease_ghost_leases": _filled(places, {key: row.leases for key, row in ghosts.items()}),
        "gpulease_settling_age_seconds": _filled(places, {key: row.age for key, row in settling.items()}),
        "gpulease_settling_attempts": _filled(places, {key: row.attempts for key, row in settling.items()}),
        "gpulease_gc_last_complete_age_seconds": [((row.account, row.region), row.age) for row in rows["places"]],
        "gpulease_listing_seconds": [
            ((row.account, row.region), row.listing_seconds)
            for row in rows["places"]
            if row.listing_seconds is not None
        ],
        "gpulease_listed_vms": [
            ((row.account, row.region), row.listed) for row in rows["places"] if row.listed is not None
        ],
    }


def _leases(rows: Any) -> dict[str, list[Sample]]:
    states = {row.state: row for row in rows["leases"]}
    [overdue], [drift], [lag] = rows["overdue"], rows["quota_drift"], rows["event_lag"]
    queued, releasing = states.get("queued"), states.get("releasing")
    checks = [row for row in rows["invariants"] if row.age is not None]
    return {
        "gpulease_quota_drift": [((), drift.rows)],
        "gpulease_invariant_violations": [((row.name,), row.violations) for row in checks],
        "gpulease_invariant_check_age_seconds": [((), max((float(row.age) for row in checks), default=math.inf))],
        "gpulease_queue_age_seconds": [((), queued.queued if queued else 0)],
        "gpulease_overdue_leases": [((), overdue.leases)],
        "gpulease_overdue_seconds": [((), overdue.age)],
        "gpulease_unnumbered_event_seconds": [((), lag.unnumbered_seconds)],
        "gpulease_webhook_overdue_seconds": [((), lag.webhooks_seconds)],
        "gpulease_releasing_age_seconds": [((), releasing.releasing or 0 if releasing else 0)],
        "gpulease_leases": _filled(
            [(state,) for state in _LIVE_STATES], {(name,): row.leases for name, row in states.items()}
        ),
        "gpulease_stuck_leases": _filled(
            [(kind,) for kind in _STUCK], {(row.kind,): row.leases for row in rows["stuck"]}
        ),
    }


def _fleet(rows: Any) -> dict[str, list[Sample]]:
    vms = [((row.provider, row.account, row.region, row.market, row.gpu_model), row) for row in rows["vms"]]
    failed = {row.account: row.failed for row in rows["checks"]}
    offerings: dict[tuple[str, ...], float] = {}
    for row in rows["offerings"]:
        key = (row.provider, row.account, row.region)
        offerings[key] = offerings.get(key, 0) + row.offerings
    return {
        "gpulease_vms": [(key, row.vms) for key, row in vms],
        "gpulease_gpus": [(key, row.gpus) for key, row in vms],
        "gpulease_spend_per_hour": [(key, row.spend) for key, row in vms],
        "gpulease_offerings": list(offerings.items()),
        "gpulease_offerings_cooling_off": [
            ((row.provider, row.account, row.region, row.cooling), row.offerings)
            for row in rows["offerings"]
            if row.cooling is not None
        ],
        "gpulease_account_state": [
            ((row.provider, row.name, state), float(row.state == state))
            for row in rows["accounts"]
            for state in _ACCOUNT_STATES
        ],
        "gpulease_account_blocked": [
            ((row.provider, row.account, row.region), float(row.blocked)) for row in rows["places"]
        ],
        "gpulease_account_cordoned": [((row.provider, row.name), float(row.cordoned)) for row in rows["accounts"]],
        "gpulease_account_failed_checks": [
            ((row.provider, row.name), float(failed.get(row.name, 0))) for row in rows["accounts"]
        ],
    }


def _launches(rows: Any) -> dict[str, list[Sample]]:
    places = [(row.provider, row.account, row.region) for row in rows["places"]]
    recent: Counter[tuple[str, ...]] = Counter()
    refused: Counter[tuple[str, ...]] = Counter()
    for row in rows["launches"]:
        outcome = SUCCEEDED if row.outcome == SUCCEEDED else str(refusal_reason(row.outcome))
        recent[row.provider, row.account, row.region, outcome] += row.launches
        refused[row.provider, row.account, row.region, outcome] += row.in_a_row
    return {
        "gpulease_recent_launches": _filled(
            [(*place, outcome) for place in places for outcome in (SUCCEEDED, *_REFUSALS)], recent
        ),
        "gpulease_refused_launches": _filled(
            [(*place, outcome) for place in places for outcome in _REFUSALS],
            {key: count for key, count in refused.items() if key[-1] != SUCCEEDED},
        ),
    }


def _brakes(rows: Any, places: list[tuple[str, str]]) -> list[Sample]:
    known = [
        *((str(brake), "", "") for brake in OF_INSTALLATION),
        *((str(brake), row.name, "") for brake in OF_ACCOUNT for row in rows["accounts"]),
        *((str(brake), *place) for brake in OF_REGION for place in places),
    ]
    return _filled(known, {(row.brake, row.account or "", row.region or ""): 1 for row in rows["active_brakes"]})


def _running(rows: Any, *, needs_deadman: bool) -> dict[str, list[Sample]]:
    [brakes] = rows["brakes"]
    beats = {row.kind: row for row in rows["processes"]}
    ages = {kind: beats[kind].age if kind in beats else math.inf for kind in (*_KINDS, DEADMAN)}
    return {
        "gpulease_hold": [((), float(brakes.hold is not None))],
        "gpulease_launches_stopped": [((), float(brakes.launches_stopped is not None))],
        "gpulease_processes": [((kind,), beats[kind].processes if kind in beats else 0) for kind in _KINDS],
        "gpulease_lost_hosts": _filled(
            [(kind,) for kind in _KINDS], Counter((row.kind,) for row in rows["lost_hosts"])
        ),
        "gpulease_process_heartbeat_age_seconds": [((kind,), ages[kind]) for kind in _KINDS],
        "gpulease_deadman_heartbeat_age_seconds": [((), ages[DEADMAN])] if needs_deadman or DEADMAN in beats else [],
        "gpulease_job_last_ok_age_seconds": [((row.kind, row.account, row.region), row.age) for row in rows["jobs"]],
        "gpulease_job_interval_seconds": [
            ((row.kind, row.account, row.region), row.interval) for row in rows["jobs"] if row.interval is not None
        ],
    }


def _filled(known: Iterable[tuple[str, ...]], values: dict[tuple[str, ...], Any]) -> list[Sample]:
    """The values read, and 0 for known label sets without rows."""
    return [
        *((key, 0.0) for key in known if key not in values),
        *((key, float(value)) for key, value in values.items()),
    ]
