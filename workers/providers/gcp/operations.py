"""The outcome of VMs that no list shows, read from Google's operations, which outlive their VM by days.

A VM that is known only from its operations has neither labels nor addresses nor a type.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime

from app.domain.leases import VmState
from app.domain.offerings import Market
from workers.providers.common.batch import ask_each, chunks
from workers.providers.common.regions import Regions
from workers.providers.errors import CredentialsRejected, ProviderError, Refused
from workers.providers.gcp.calls import either, scoped
from workers.providers.gcp.clients import GcpClients
from workers.providers.gcp.errors import MIN_COUNT, may_have_inserted, not_inserted, refusal
from workers.providers.gcp.ids import Id, last
from workers.providers.gcp.sdk import GlobalOperationsClient, Operation, ZoneOperationsClient
from workers.providers.gcp.vms import time_of
from workers.providers.types import Vm

PREEMPTED = "compute.instances.preempted"
INSERT = "insert"
DELETE = "delete"
DONE = Operation.Status.DONE

_TARGETS_PER_CALL = 50


def problem(operation: Operation) -> ProviderError | None:
    """The error with which an operation ended, or None. Of several errors the first one that names a cause."""
    if operation.status != DONE:
        return None
    errors = list(operation.error.errors)
    for named in [error for error in errors if error.code != MIN_COUNT] or errors:
        return refusal(named.code, named.message)
    status = operation.http_error_status_code
    return refusal(str(status), operation.http_error_message) if status else None


def accepted(operation: Operation) -> Operation:
    """The operation, running or done. Raises the error with which the operation has already ended."""
    error = problem(operation)
    if error is not None:
        raise error
    return operation


def insert_failure(operation: Operation) -> ProviderError | None:
    """Refused or TokenConflict for an insert operation that has failed, None for one that is at work or succeeded.

    Where `leaves_doubt`, the refusal holds only if the VM does not show.
    """
    error = problem(operation)
    return not_inserted(error) if error is not None else None


def leaves_doubt(operation: Operation) -> bool:
    """Whether an insert operation has failed in a way that may have left a VM. One of several errors suffices."""
    return operation.status == DONE and any(
        may_have_inserted(refusal(error.code, error.message)) for error in operation.error.errors
    )


def ends_in_doubt(operations: Iterable[Operation]) -> bool:
    """As `leaves_doubt`, for the operations of one VM."""
    return any(operation.operation_type == INSERT and leaves_doubt(operation) for operation in operations)


def of_vms(
    clients: GcpClients, ids: Iterable[Id]
) -> tuple[Mapping[Id, Sequence[Operation]], Mapping[str, ProviderError]]:
    """Operations of each VM, oldest first, and the zones that could not be read. Raises CredentialsRejected."""
    vms = set(ids)
    zones = {zone: {vm.number: vm for vm in vms if vm.zone == zone} for zone in sorted({vm.zone for vm in vms})}
    answers, failed = ask_each(zones, lambda zone: _in_zone(clients, zone, zones[zone]))
    for error in failed.values():
        if isinstance(error, CredentialsRejected):
            raise error
    return {key: history for histories in answers.values() for key, history in histories.items()}, failed


def _in_zone(clients: GcpClients, zone: str, numbers: Mapping[str, Id]) -> Mapping[Id, Sequence[Operation]]:
    """Reads one list per fifty VMs."""
    histories: dict[Id, list[Operation]] = {vm: [] for vm in numbers.values()}
    for chunk in chunks(list(numbers), _TARGETS_PER_CALL):
        targets = either("targetId", chunk)
        for page in clients.pages(clients.of(ZoneOperationsClient).list, zone=zone, filter=targets):
            for operation in page.items:
                vm = numbers.get(str(operation.target_id))
                if vm is not None:
                    histories[vm].append(operation)
    for history in histories.values():
        history.sort(key=_began)
    return histories


def of_name(clients: GcpClients, region: str, name: str) -> Mapping[Id, list[Operation]]:
    """Operations of every VM that had this name in a region, oldest first."""
    histories: dict[Id, list[Operation]] = {}
    regions = frozenset({region})
    for operation in _aggregated(clients, regions, f'targetLink eq ".*/zones/{region}-[a-z0-9]+/instances/{name}"'):
        histories.setdefault(Id(last(operation.zone), name, str(operation.target_id)), []).append(operation)
    for history in histories.values():
        history.sort(key=_began)
    return histories


def of_group(clients: GcpClients, zone: str, group: str) -> Mapping[str, Operation]:
    """The operations by VM name with which instances.bulkInsert creates its VMs. `group`: their operationGroupId."""
    inserts: dict[str, Operation] = {}
    for page in clients.pages(clients.of(ZoneOperationsClient).list, zone=zone, filter=f'operationGroupId = "{group}"'):
        inserts |= {
            last(operation.target_link): operation for operation in page.items if operation.operation_type == INSERT
        }
    return inserts


def of_request(clients: GcpClients, zone: str, request_id: str) -> Operation | None:
    """The operation of a call with this request id, or None."""
    request_filter = f'clientOperationId = "{request_id}"'
    pages = clients.pages(clients.of(ZoneOperationsClient).list, zone=zone, filter=request_filter)
    return next((operation for page in pages for operation in page.items), None)


def preemptions(clients: GcpClients, regions: frozenset[str]) -> Iterator[Operation]:
    """All preemptions that Google still knows, which are those of some days.

    Omits unreachable regions. Raises ProviderError when all regions are unreachable.
    """
    return _aggregated(clients, regions, f'operationType = "{PREEMPTED}"')


def _aggregated(clients: GcpClients, regions: frozenset[str], operation_filter: str) -> Iterator[Operation]:
    scan = Regions(regions)
    for page in clients.pages(clients.of(GlobalOperationsClient).aggregated_list, filter=operation_filter):
        for region in scan.readable:
            with scan.reading(region):
                for _, scope in scoped(page, region).zones:
                    yield from scope.operations


def fate(vm_id: Id, region: str, operations: Sequence[Operation]) -> Vm | None:
    """The VM as its operations describe it; None when they do not determine its state.

    Where `ends_in_doubt`, a refusal holds only if the VM does not show.
    """
    by_kind = {operation.operation_type: operation for operation in operations}
    insert, preempted, deleted = by_kind.get(INSERT), by_kind.get(PREEMPTED), by_kind.get(DELETE)
    if insert is not None and insert.status != DONE:
        return _vm(vm_id, region, insert, VmState.PENDING)
    error = insert_failure(insert) if insert is not None else None
    if insert is not None and isinstance(error, Refused):
        return _refused(vm_id, region, insert, error)
    if preempted is not None and (deleted is None or _began(preempted) <= _began(deleted)):
        return _vm(vm_id, region, preempted, VmState.GONE, interrupted=True)
    if deleted is not None and problem(deleted) is None:
        return _vm(vm_id, region, deleted, VmState.GONE if deleted.status == DONE else VmState.ENDING)
    return None


def _refused(vm_id: Id, region: str, insert: Operation, error: Refused) -> Vm:
    return _vm(
        vm_id,
        region,
        insert,
        VmState.GONE,
        reason={"code": error.code, "message": error.message},
        refusal=type(error),
    )


def _vm(
    vm_id: Id,
    region: str,
    operation: Operation,
    state: VmState,
    *,
    interrupted: bool = False,
    reason: Mapping[str, str | None] | None = None,
    refusal: type[Refused] | None = None,
) -> Vm:
    ended = state is not VmState.PENDING
    by_operation = {"code": operation.operation_type, "message": f"by {operation.user}" if operation.user else None}
    return Vm(
        id=str(vm_id),
        region=region,
        zone=vm_id.zone,
        instance_type="",
        market=Market.SPOT if interrupted else Market.ON_DEMAND,
        state=state,
        tags={},
        ended_at=time_of(operation.end_time) if state is VmState.GONE else None,
        state_reason=(reason or by_operation) if ended else None,
        interrupted=interrupted,
        refusal=refusal,
    )


def _began(operation: Operation) -> tuple[datetime | None, str]:
    return time_of(operation.insert_time), operation.operation_type
