"""The rare look at everything of ours besides VMs: what ended attempts left behind is removed.

The watch removes what is left when a VM ends. This finds what it missed: a security group that could not go yet, a disk that
turned up late. The cloud is listed first, the database read second; what no row proves to be over is not touched.
"""

from collections.abc import Sequence

from app.db import leftovers as statements
from app.domain.tags import attempt_key
from workers.providers.base import Leftover
from workers.runtime import Runtime
from workers.watch import remove

_MOST_AT_ONCE = 50


def sweep_leftovers(runtime: Runtime, account: str, region: str) -> int:
    """Removes at most fifty, as fast as the provider's request rate allows. Answers how many. Raises ProviderError."""
    runtime.accounts.check_identity(account)
    provider = runtime.accounts.provider(account)
    bucket = runtime.pacer.bucket(account, region, "write")
    removed = 0
    for one in _over(runtime, account, region)[:_MOST_AT_ONCE]:
        if not runtime.pacer.take(provider, bucket):
            break
        removed += remove(provider, one)
    return removed


def _over(runtime: Runtime, account: str, region: str) -> Sequence[Leftover]:
    found = runtime.accounts.provider(account).leftovers(region, runtime.installation.id, None)
    idle = [(attempt_key(one.tags), one) for one in found if not one.in_use]
    keys = {key for key, _ in idle if key is not None}
    if not keys:
        return []
    ended = {(row.lease_id, row.n) for row in runtime.database.all(statements.ended(account, region, keys))}
    return [one for key, one in idle if key in ended]
