"""What the code of a worker process is given: built once in the composition root, passed on, never looked up."""

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field

from app.db.fleet import accounts
from app.domain.cool_off import CoolOffSeconds
from app.domain.lifecycle import Timing
from app.observability.traces import Traces
from app.settings import Settings, StartupError
from workers.runtime.accounts import Accounts
from workers.runtime.batch_keys import BatchKeys
from workers.runtime.brakes import FirstListings
from workers.runtime.bulkheads import Bulkheads
from workers.runtime.claim_renewer import ClaimRenewer
from workers.runtime.database import WorkerDatabase
from workers.runtime.metrics import WorkerMetrics
from workers.runtime.permits import Permits
from workers.runtime.process_locks import ProcessLiveness
from workers.runtime.provider_rate_limiter import ProviderRateLimiter
from workers.runtime.ranked_offerings import RankedOfferings
from workers.runtime.rowless_leftovers import RowlessLeftovers
from workers.runtime.unlabelled_vms import UnlabelledVms
from workers.runtime.unreleased_claims import UnreleasedClaims


@dataclass(frozen=True, slots=True, kw_only=True)
class Installation:
    """Whose VMs ours are, and the key of the launch tokens."""

    id: str
    token_key: bytes = field(repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class Runtime:
    """One per process. `nudge` wakes the sweeper of this process before its interval is over.

    `stopping`: the process takes nothing new and ends after the calls under way. `drained`: nothing is under way any more.

    `monotonic`: seconds that never go back, for what this process remembers and how long its work takes; what is due or
    held is the database's business.
    """

    settings: Settings
    database: WorkerDatabase
    accounts: Accounts
    catalogue: RankedOfferings
    rate_limiter: ProviderRateLimiter
    installation: Installation
    timing: Timing
    cool_offs: CoolOffSeconds
    first_listings: FirstListings
    claim_renewer: ClaimRenewer
    liveness: ProcessLiveness
    bulkheads: Bulkheads
    metrics: WorkerMetrics = field(default_factory=WorkerMetrics)
    traces: Traces = field(default_factory=Traces)
    batch_keys: BatchKeys = field(default_factory=BatchKeys)
    unreleased: UnreleasedClaims = field(default_factory=UnreleasedClaims)
    permits: Permits = field(default_factory=Permits)
    unlabelled: UnlabelledVms = field(default_factory=UnlabelledVms)
    rowless_leftovers: RowlessLeftovers = field(default_factory=RowlessLeftovers)
    nudge: threading.Event = field(default_factory=threading.Event)
    stopping: threading.Event = field(default_factory=threading.Event)
    drained: threading.Event = field(default_factory=threading.Event)
    monotonic: Callable[[], float] = time.monotonic


def timing_from(settings: Settings) -> Timing:
    """The protocol's durations."""
    return Timing(
        unknown_retry=settings.unknown_retry_seconds,
        settle=settings.settle_seconds,
        settle_gap=settings.settle_gap_seconds,
        launch_timeout=settings.launch_timeout,
        boot_timeout=settings.boot_timeout,
        boot_timeout_large=max(settings.boot_timeout, settings.boot_timeout_large),
        max_backoff=settings.max_backoff_seconds,
        not_found_grace=settings.not_found_grace_seconds,
        deadline_grace=settings.deadline_grace_seconds,
        sample=settings.sample_seconds,
        proof=settings.proof_seconds,
    )


def cool_offs_from(settings: Settings) -> CoolOffSeconds:
    """For how long refusals set offerings aside."""
    return CoolOffSeconds(
        capacity=settings.cool_off_capacity_seconds,
        quota=settings.cool_off_quota_seconds,
        not_offered=settings.cool_off_unoffered_seconds,
        outage=settings.unreachable_seconds,
        outage_longest=settings.max_backoff_seconds,
    )


def read_installation(database: WorkerDatabase, settings: Settings) -> Installation:
    """Raises StartupError when the database is not migrated or belongs to another installation."""
    row = database.first(accounts.installation_row())
    if row is None:
        msg = "the database has no installation yet: run `gpulease-server migrate`"
        raise StartupError(msg)
    if settings.installation_id not in (None, row.id):
        msg = (
            f"GPULEASE_INSTALLATION_ID is {settings.installation_id}, but the database belongs to {row.id}: "
            "workers do not start, since they would take this installation's VMs for strangers"
        )
        raise StartupError(msg)
    return Installation(id=row.id, token_key=bytes(row.token_key))
