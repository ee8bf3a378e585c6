"""The rare look at everything of ours besides VMs: what ended attempts left behind is removed.

The watch removes what is left when a VM ends. This finds what it missed: a security group that could not go yet, a disk that
turned up late. The cloud is listed first, the database read second. What a row proves to be over is removed at once; what
no row knows (a restored database has lost it) is removed after it has been unused for the grace of VMs without a row.
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
    """Removes at most fifty, as fast as the provider's request rate allows. Answers how many. Raises ProviderError.

    One that the provider does not remove keeps no other waiting: none counts before it is removed, and each sweep tries them
    in another order.
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
