"""VMs of launch batches: which attempt a VM belongs to before it has tags of its own, and the writing of those tags."""

from collections.abc import Collection, Iterable, Mapping

import structlog
from sqlalchemy import Connection

from app.db.leases import batches
from app.domain.ids import BatchId, LeaseId, TenantId
from app.domain.inventory import BatchSlot, Row
from app.domain.tags import OwnerTags, attempt_key
from app.domain.tokens import batch_token
from workers.providers.errors import ProviderError, Throttled
from workers.providers.types import Vm
from workers.runtime import Runtime

log = structlog.get_logger(__name__)

_MOST_AT_ONCE = 100


def slots_of(
    connection: Connection,
    runtime: Runtime,
    account: str,
    region: str,
    vms: Iterable[Vm],
    rows: Iterable[Row],
) -> Mapping[str, BatchSlot]:
    """The slots of listed VMs by VM id. The database is only asked about VMs that no row owns."""
    owned = {row.instance_id for row in rows}
    batched = [(vm, vm.batch) for vm in vms if vm.batch is not None]
    unowned = {slot for vm, slot in batched if vm.id not in owned}
    named = connection.execute(*batches.named_slots(account, region, unowned)).all() if unowned else []
    known = {(row.batch_id, row.slot): row for row in named}
    slots: dict[str, BatchSlot] = {}
    for vm, slot in batched:
        row = known.get(slot)
        slots[vm.id] = BatchSlot(
            token=batch_token(runtime.installation.token_key, runtime.installation.id, BatchId(slot[0])),
            is_known=row is not None and row.known,
            key=(row.lease_id, row.n) if row is not None and row.lease_id is not None else None,
            is_labelled=attempt_key(vm.tags) is not None,
        )
    return slots


def label_vms(runtime: Runtime, account: str, region: str, vms: Collection[Vm]) -> int:
    """Writes the own tags of VMs of batches that have none yet, within the provider's request rate. Returns how many.

    Nothing depends on these tags. What this pass does not write, a later one of the watch or the inventory does.
    """
    bare = [vm.id for vm in vms if vm.batch is not None and attempt_key(vm.tags) is None]
    rows = runtime.database.all(batches.owners(account, region, bare)) if bare else []
    provider, bucket = runtime.accounts.provider(account), runtime.pacer.bucket(account, region, "write")
    owners: dict[str, OwnerTags] = {}
    for row in rows[:_MOST_AT_ONCE]:
        if not runtime.pacer.take(provider, bucket):
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
        return 0
    names = {row.instance_id: row.name for row in rows if row.instance_id in owners}
    try:
        result = provider.label_slots(region, owners, names)
    except ProviderError as error:
        log.info("VMs of a batch have no tags of their own yet", code=error.code, error=error.message)
        return 0
    throttled = next((error for error in result.refused.values() if isinstance(error, Throttled)), None)
    if throttled is not None:
        runtime.pacer.throttled(provider, bucket, throttled)
    return len(result.done)
