"""Which attempt the VM of a launch batch belongs to, before it has tags of its own."""

from collections.abc import Iterable, Mapping

from sqlalchemy import Connection

from app.db.leases import batches
from app.domain.ids import BatchId
from app.domain.inventory import BatchSlot, Row
from app.domain.tags import attempt_key
from app.domain.tokens import batch_token
from workers.providers.types import Vm
from workers.runtime.runtime import Runtime


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
