"""The infrequent sweep of all tagged resources except VMs. It removes the leftover resources of ended attempts.

The watch removes leftovers when a VM ends. This sweep finds the ones that the watch missed: a security group that could
not be deleted yet, a disk that appeared late. The cloud is listed first, the database is read second. A resource that a
row proves to be over is removed at once. A restored database may have lost the row of a resource. Such a resource is
removed once it has been unused for the grace period of VMs without a row.
"""

import random
from collections.abc import Sequence

from app.db.fleet import leftovers as statements
from app.domain.tags import attempt_key
from workers.observation.watch import try_to_remove
from workers.providers.errors import Throttled
from workers.providers.types import Leftover
from workers.runtime import Runtime

_MOST_AT_ONCE = 50


def sweep_leftovers(runtime: Runtime, account: str, region: str) -> int:
    """Removes at most fifty leftovers, within the provider's request rate. Returns how many. Raises ProviderError.

    A leftover that the provider does not remove delays no other one. Only removed leftovers count towards the limit,
    and each sweep tries them in a random order.
    """
    runtime.accounts.check_identity(account)
    provider = runtime.accounts.provider(account)
    bucket = runtime.pacer.bucket(account, region, "write")
    removed = 0
    leftovers = _over(runtime, account, region)
    for leftover in random.sample(leftovers, len(leftovers)):
        if removed == _MOST_AT_ONCE or not runtime.pacer.take(provider, bucket):
            break
        error = try_to_remove(provider, leftover)
        removed += error is None
        if isinstance(error, Throttled):
            runtime.pacer.throttled(provider, bucket, error)
            break
    return removed


def _over(runtime: Runtime, account: str, region: str) -> Sequence[Leftover]:
    left = runtime.accounts.provider(account).leftovers(region, runtime.installation.id, None)
    idle = [(key, leftover) for leftover in left.found if not leftover.in_use and (key := attempt_key(leftover.tags))]
    keys = {key for key, _ in idle}
    rows = runtime.database.all(statements.judged(account, region, keys)) if keys else []
    ended = {(row.lease_id, row.n) for row in rows if row.ended}
    rowless = {(row.lease_id, row.n) for row in rows if row.rowless}
    lost = runtime.rowless_leftovers.overdue(
        (account, region),
        [leftover.id for key, leftover in idle if key in rowless],
        now=runtime.monotonic(),
        grace=runtime.settings.rowless_grace_seconds,
    )
    return [leftover for key, leftover in idle if key in ended or (key in rowless and leftover.id in lost)]
