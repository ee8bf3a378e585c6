"""The infrequent sweep of all tagged resources except VMs. It removes the leftover resources of ended attempts.

The watch removes leftovers when a VM ends. This sweep finds the ones that the watch missed: a security group that could
not be deleted yet, a disk that appeared late. The cloud is listed first, the database is read second. A resource that a
row proves to be over is removed at once. A restored database may have lost the row of a resource. Such a resource is
removed once it has been unused for the grace period of VMs without a row.
"""

import random
from collections.abc import Mapping, Sequence
from enum import Enum, auto

from app.db.fleet import leftovers as statements
from app.db.leases import batches
from app.domain.tags import BATCH, SHARED, attempt_key
from workers.observation.watch import try_to_remove
from workers.providers.errors import Throttled
from workers.providers.types import Leftover
from workers.runtime.runtime import Runtime

_MOST_AT_ONCE = 50


def sweep_leftovers(runtime: Runtime, account: str, region: str) -> int:
    """Removes at most fifty leftovers, within the provider's request rate. Returns how many. Raises ProviderError.

    A leftover that the provider does not remove delays no other one. Only removed leftovers count towards the limit,
    and each sweep tries them in a random order.
    """
    runtime.accounts.check_identity(account)
    provider = runtime.accounts.provider(account)
    bucket = runtime.rate_limiter.bucket(account, region, "write")
    removed = 0
    leftovers = _over(runtime, account, region)
    for leftover in random.sample(leftovers, len(leftovers)):
        if removed == _MOST_AT_ONCE or not runtime.rate_limiter.take(provider, bucket):
            break
        error = try_to_remove(provider, leftover)
        removed += error is None
        if isinstance(error, Throttled):
            runtime.rate_limiter.throttled(provider, bucket, error)
            break
    return removed


def _over(runtime: Runtime, account: str, region: str) -> Sequence[Leftover]:
    left = runtime.accounts.provider(account).leftovers(region, runtime.installation.id, None)
    idle = [leftover for leftover in left.resources if not leftover.in_use]
    verdicts = _verdicts(runtime, account, region, idle)
    lost = runtime.rowless_leftovers.overdue(
        (account, region),
        [leftover.id for leftover in idle if verdicts.get(leftover.id) is _Verdict.ROWLESS],
        now=runtime.monotonic(),
        grace=runtime.settings.rowless_grace_seconds,
    )
    return [leftover for leftover in idle if leftover.id in lost or verdicts.get(leftover.id) is _Verdict.ENDED]


class _Verdict(Enum):
    """What the rows say about the owner of a leftover."""

    ENDED = auto()
    ROWLESS = auto()


def _verdicts(runtime: Runtime, account: str, region: str, idle: Sequence[Leftover]) -> Mapping[str, _Verdict]:
    """By leftover id.

    What the members of a group share is judged by the group: other members may be about to use it. A leftover of a
    launch batch that names no attempt is judged by all attempts of the batch.
    """
    of_group = {leftover.id: leftover.tags[SHARED] for leftover in idle if SHARED in leftover.tags}
    idle = [leftover for leftover in idle if leftover.id not in of_group]
    keys = {leftover.id: key for leftover in idle if (key := attempt_key(leftover.tags))}
    of_batch = {
        leftover.id: leftover.tags[BATCH] for leftover in idle if leftover.id not in keys and BATCH in leftover.tags
    }
    rows = runtime.database.all(statements.judged(account, region, set(keys.values()))) if keys else []
    attempts = {(row.lease_id, row.n): row for row in rows}
    rows = runtime.database.all(batches.judged(account, region, set(of_batch.values()))) if of_batch else []
    batch_rows = {row.id: row for row in rows}
    rows = runtime.database.all(statements.groups_judged(set(of_group.values()))) if of_group else []
    group_rows = {row.id: row for row in rows}
    owners = {
        **{leftover_id: attempts.get(key) for leftover_id, key in keys.items()},
        **{leftover_id: batch_rows.get(batch_id) for leftover_id, batch_id in of_batch.items()},
        **{leftover_id: group_rows.get(group_id) for leftover_id, group_id in of_group.items()},
    }
    judged = {leftover_id: row for leftover_id, row in owners.items() if row is not None and (row.ended or row.rowless)}
    return {leftover_id: _Verdict.ENDED if row.ended else _Verdict.ROWLESS for leftover_id, row in judged.items()}
