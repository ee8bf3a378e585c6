"""The periodic jobs of this installation: what, how often, and in which process."""

from collections.abc import Mapping
from dataclasses import dataclass

from app.db.fleet.account_states import OFFERINGS_JOB
from app.settings import Settings
from workers.delivery.operator_messages import tell_operators
from workers.jobs import housekeeping, notices
from workers.jobs.account_checks import check_when_due
from workers.jobs.budgets import apply_budgets
from workers.jobs.gpu_samples import keep_partitions, roll_up_samples
from workers.jobs.observe_reservations import observe_reservations
from workers.jobs.record_usage import record_usage
from workers.jobs.refresh_offerings import PRICES, refresh, refresh_prices
from workers.jobs.roll_up_usage import roll_up_usage
from workers.jobs.runner import JobSpec, ensure_jobs, first_often
from workers.jobs.volumes import work_on_volumes
from workers.observation.inventory import take_account_inventory, take_inventory
from workers.observation.leftovers import sweep_leftovers
from workers.observation.volumes import observe_volumes
from workers.observation.watch import watch
from workers.runtime.runtime import Runtime

_HOURLY = 3600.0
_RARELY = 10
"""Inventory intervals between two looks for what earlier attempts left. One that removed something is soon followed by
another: what names a resource of a group is removed before it."""
_CHECKS_INTERVAL = 20.0
"""Between two looks whether an account must be checked: an operator who requests it waits for so long."""
_PLACES_INTERVAL = 30.0
_NOTICES_INTERVAL = 15.0
_OPERATORS_INTERVAL = 15.0
_OPERATORS_IDLE = 60.0
"""Messages to operators run beside the refreshes: a receiver that hangs keeps no lease waiting."""
_USAGE_INTERVAL = 300.0
_BUDGETS_INTERVAL = 15.0
"""How long a budget that is exceeded waits for its action, and a period that has ended for the next one."""
_RESERVATIONS_INTERVAL = 30.0
_VOLUMES_INTERVAL = 2.0
_VOLUMES_IDLE = 6.0
"""Between two looks for volumes to create or to delete where there were none: how long a new volume waits at most."""
_WATCH_IDLE = 5.0
"""Watch intervals between two looks at a place where nothing is in change; a launch or a release ends the pause."""
_WATCH_REST = 2.0
"""Parsing what a cloud says of hundreds of VMs in change took more than half of a worker without it."""


_OPERATORS = JobSpec(
    name="operators",
    run=tell_operators,
    interval=lambda _: _OPERATORS_INTERVAL,
    idle=_OPERATORS_IDLE,
    per_region=False,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class JobSpecs:
    """`inventory` costs CPU and has its own process; the others run in threads of every worker process."""

    inventory: Mapping[str, JobSpec]
    watch: Mapping[str, JobSpec]
    refresh: Mapping[str, JobSpec]
    housekeeping: Mapping[str, JobSpec]
    notices: Mapping[str, JobSpec]

    @property
    def all(self) -> dict[str, JobSpec]:
        return {**self.inventory, **self.watch, **self.refresh, **self.housekeeping, **self.notices}


def job_specs(settings: Settings) -> JobSpecs:
    """Every kind with its interval from the settings."""
    s = settings
    inventory_interval = first_often(s.inventory_first_interval, s.inventory_interval)
    inventory = JobSpec(
        name="inventory", run=take_inventory, together=take_account_inventory, interval=inventory_interval
    )
    watching = JobSpec(
        name="watch",
        run=watch,
        interval=lambda _: s.watch_interval,
        rest=_WATCH_REST,
        idle=_WATCH_IDLE * s.watch_interval,
    )
    refreshing = JobSpec(name=OFFERINGS_JOB, run=refresh, interval=lambda _: s.offerings_interval)
    pricing = JobSpec(
        name=PRICES, run=refresh_prices, interval=lambda _: s.prices_interval, idle=min(_HOURLY, s.prices_interval)
    )
    sweeping = JobSpec(
        name="leftovers",
        run=sweep_leftovers,
        interval=lambda _: s.inventory_interval,
        idle=_RARELY * s.inventory_interval,
    )
    checking = JobSpec(name="checks", run=check_when_due, interval=lambda _: _CHECKS_INTERVAL, per_account=True)
    reserving = JobSpec(
        name="reservations",
        run=observe_reservations,
        interval=lambda _: min(_RESERVATIONS_INTERVAL, s.offerings_interval),
    )
    telling = JobSpec(name="notices", run=notices.tell, interval=lambda _: _NOTICES_INTERVAL, per_region=False)
    kinds = (refreshing, sweeping, pricing, checking, reserving, *_volumes(s), _OPERATORS)
    return JobSpecs(
        inventory={"inventory": inventory},
        watch={"watch": watching},
        refresh={kind.name: kind for kind in kinds},
        housekeeping={kind.name: kind for kind in _housekeeping(settings)},
        notices={"notices": telling},
    )


def _volumes(settings: Settings) -> list[JobSpec]:
    making = JobSpec(name="volumes", run=work_on_volumes, interval=lambda _: _VOLUMES_INTERVAL, idle=_VOLUMES_IDLE)
    interval = settings.inventory_interval
    listing = JobSpec(name="volume_listings", run=observe_volumes, interval=lambda _: interval, idle=_RARELY * interval)
    return [making, listing]


def _housekeeping(settings: Settings) -> list[JobSpec]:
    def places(runtime: Runtime, _account: str, _region: str) -> None:
        ensure_jobs(runtime, job_specs(settings).all)

    def recount(runtime: Runtime, _account: str, _region: str) -> int:
        return housekeeping.recount(runtime)

    def purge(runtime: Runtime, _account: str, _region: str) -> int:
        return housekeeping.forget_old(runtime)

    def charges(runtime: Runtime, _account: str, _region: str) -> int:
        return housekeeping.recount_charges(runtime)

    intervals = {
        "places": _PLACES_INTERVAL,
        "recount": settings.recount_interval,
        "purge": _HOURLY,
        "charges": _HOURLY,
    }
    summing = JobSpec(name="usage", run=roll_up_usage, interval=lambda _: _USAGE_INTERVAL, per_region=False)
    budgeting = JobSpec(name="budgets", run=apply_budgets, interval=lambda _: _BUDGETS_INTERVAL, per_region=False)
    recording = JobSpec(name="usage_records", run=record_usage, interval=lambda _: _USAGE_INTERVAL, per_region=False)
    sampling = JobSpec(name="gpu_samples", run=roll_up_samples, interval=lambda _: _USAGE_INTERVAL, per_region=False)
    partitioning = JobSpec(name="gpu_partitions", run=keep_partitions, interval=lambda _: _HOURLY, per_region=False)
    return [
        summing,
        sampling,
        partitioning,
        budgeting,
        recording,
        *(
            JobSpec(
                name=run.__name__,
                run=run,
                interval=lambda _, seconds=intervals[run.__name__]: seconds,
                per_region=False,
            )
            for run in (places, recount, purge, charges)
        ),
    ]
