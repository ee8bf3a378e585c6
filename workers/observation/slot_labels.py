"""The own tags of VMs of launch batches: lease, attempt, deadline and name. The create call could not write them.

Each VM needs a call. The process that records a VM writes its tags, so that two processes do not write the same ones. A worker
does so in a thread, for which no lease waits. An inventory does so at the end of its pass. Nothing depends on the tags: what
a process has left when it ends, the watch of another notes, and the inventory writes the rest.
"""

from collections.abc import Collection, Iterable
from datetime import datetime, timedelta

import structlog

from app.db.leases import batches
from app.domain.ids import LeaseId, TenantId
from app.domain.tags import OwnerTags, attempt_key
from workers.observation.listings import RegionListing
from workers.providers.errors import ProviderError, Throttled
from workers.providers.types import Vm
from workers.runtime.loop import Loop
from workers.runtime.runtime import Runtime

log = structlog.get_logger(__name__)

_MOST_AT_ONCE = 100
_PAUSE_SECONDS = 0.5
_YOUNG_SECONDS = 60.0
"""The threads of workers write the tags of younger VMs."""
_LEFT_SECONDS = 10.0
"""The process that launched a VM has written its tags by then, or it has ended."""


def label_listed(
    runtime: Runtime, account: str, region: str, listed: RegionListing, recorded: Collection[str]
) -> Collection[str]:
    """Writes the own tags of VMs of batches that have none yet, within the provider's request rate. Returns their ids.

    Leaves young VMs to the workers, whose threads may have written the tags since the VMs were listed. `recorded`: the
    ids of VMs that this listing was the first to show.
    """
    since = listed.started_at - timedelta(seconds=_YOUNG_SECONDS)
    return _label(runtime, (account, region), [*recorded, *_unlabelled(listed.vms.values(), since)])


def note_left(runtime: Runtime, account: str, region: str, vms: Iterable[Vm], now: datetime) -> None:
    """Notes the VMs whose process has not written their tags. `now`: by the database's clock."""
    runtime.unlabelled.note(account, region, _unlabelled(vms, now - timedelta(seconds=_LEFT_SECONDS)))


def label_noted(runtime: Runtime) -> int:
    """The same for VMs that this process has noted. Returns how many have tags now."""
    count = 0
    for place, vm_ids in runtime.unlabelled.waiting().items():
        done = _label(runtime, place, vm_ids)
        runtime.unlabelled.labelled(done)
        count += len(done)
    return count


def loop(runtime: Runtime) -> Loop:
    """Writes what is noted."""

    def write() -> None:
        label_noted(runtime)

    return Loop("labels", write, stopping=runtime.stopping, pause=_PAUSE_SECONDS)


def _unlabelled(vms: Iterable[Vm], since: datetime) -> list[str]:
    """The ids of VMs of batches that were launched before `since` and show no tags of their own."""
    old = (vm for vm in vms if vm.launched_at is None or vm.launched_at < since)
    return [vm.id for vm in old if vm.batch is not None and attempt_key(vm.tags) is None]


def _label(runtime: Runtime, place: tuple[str, str], vm_ids: Collection[str]) -> Collection[str]:
    account, region = place
    rows = runtime.database.all(batches.owners(account, region, vm_ids)) if vm_ids else []
    provider, bucket = runtime.accounts.provider(account), runtime.rate_limiter.bucket(account, region, "write")
    owners: dict[str, OwnerTags] = {}
    for row in rows[:_MOST_AT_ONCE]:
        if not runtime.rate_limiter.take(provider, bucket):
            break
        owners[row.instance_id] = OwnerTags(
            installation=runtime.installation.id,
            lease_id=LeaseId(row.lease_id),
            n=row.n,
            tenant_id=TenantId(row.tenant_id),
            params_hash=row.params_hash,
            deadline_at=row.deadline_applied,
        )
    if not owners:
        return ()
    names = {row.instance_id: row.name for row in rows if row.instance_id in owners}
    try:
        result = provider.label_slots(region, owners, names)
    except ProviderError as error:
        log.info("VMs of a batch have no tags of their own yet", code=error.code, error=error.message)
        return ()
    throttled = next((error for error in result.refused.values() if isinstance(error, Throttled)), None)
    if throttled is not None:
        runtime.rate_limiter.throttled(provider, bucket, throttled)
    return result.done
