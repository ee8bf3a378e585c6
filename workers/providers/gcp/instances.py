"""Operations on instances: listings, reads by id or name, guest attributes, termination and reset."""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, cast

from app.domain import tags
from app.domain.leases import VmState
from app.domain.offerings import Market
from app.domain.tags import OwnerTags
from workers.providers.common.batch import answered, ask_each, chunks, each, leave_out
from workers.providers.common.console import clean
from workers.providers.common.regions import Regions
from workers.providers.errors import NotFound, ProviderError
from workers.providers.gcp import operations, resource_tags
from workers.providers.gcp.calls import NAMES_PER_CALL, complete, either, everywhere, scoped
from workers.providers.gcp.clients import GcpClients
from workers.providers.gcp.ids import Id, in_region, region_of
from workers.providers.gcp.sdk import Instance, InstancesClient, Operation
from workers.providers.gcp.vms import from_instance
from workers.providers.types import BatchResult, ListingPage, Vm

READY = "gpulease/ready"
"""The guest attribute that the VM writes at the end of its boot: namespace and key."""

_LEAVING = frozenset({VmState.ENDING, VmState.STOPPED})


def listed(clients: GcpClients, regions: frozenset[str], installation: str) -> Iterator[ListingPage]:
    """Pages of this installation's VMs in some regions. Google returns pages of all regions.

    A VM that cannot be read makes its zone count as unreachable.
    """
    label_filter = resource_tags.having(tags.INSTALLATION, installation)
    scan = Regions(regions)
    for page in clients.pages(clients.of(InstancesClient).aggregated_list, filter=label_filter):
        vms: list[Vm] = []
        lost: frozenset[str] = frozenset()
        for region in scan.readable:
            with scan.reading(region):
                zones, unreachable = scoped(page, region)
                readable, odd = _read(zones)
                explained, silent = _explained(clients, region, readable)
                vms += explained
                lost |= unreachable | odd | silent.keys()
        yield ListingPage(vms=vms, unreachable=lost, failed=dict(scan.failed))


def listed_everywhere(clients: GcpClients, installation: str) -> Iterator[ListingPage]:
    """Pages of this installation's VMs in all zones. Does not read operations, which need a separate permission.

    A VM that cannot be read makes its zone count as unreachable.
    """
    label_filter = resource_tags.having(tags.INSTALLATION, installation)
    for page in clients.pages(clients.of(InstancesClient).aggregated_list, filter=label_filter):
        yield _of_all_zones(page)


def _of_all_zones(page: Any) -> ListingPage:
    zones, unreachable = everywhere(page)
    vms, odd = _read(zones)
    return ListingPage(vms=vms, unreachable=unreachable | odd)


def _read(zones: Sequence[tuple[str, Any]]) -> tuple[list[Vm], frozenset[str]]:
    """The VMs of a page, and the zones with a VM that cannot be read."""
    by_place = {f"{zone}/{vm.name}": (zone, vm) for zone, scope in zones for vm in scope.instances}
    read, failed = ask_each(by_place, lambda key: from_instance(by_place[key][1], region_of(by_place[key][0])))
    return list(read.values()), frozenset(by_place[key][0] for key in failed)


def _explained(clients: GcpClients, region: str, vms: Sequence[Vm]) -> tuple[list[Vm], Mapping[str, ProviderError]]:
    """Marks the VMs that Google interrupts, and returns the zones whose operations could not be read.

    Operations show the interruption of spot VMs that are ending or have stopped. A VM whose operations cannot be read
    is omitted, because the reason for its end is not known yet.
    """
    leaving = [vm for vm in vms if vm.market is Market.SPOT and vm.state in _LEAVING]
    histories, silent = operations.of_vms(clients, filter(None, (Id.parse(vm.id) for vm in leaving)))
    fates = {str(key): operations.fate(key, region, history) for key, history in histories.items()}
    interrupted = {vm_id for vm_id, fate in fates.items() if fate is not None and fate.interrupted}
    unexplained = {vm.id for vm in leaving if vm.zone in silent}
    explained = [
        replace(vm, interrupted=True) if vm.id in interrupted else vm for vm in vms if vm.id not in unexplained
    ]
    return explained, silent


def with_ids(
    clients: GcpClients, region: str, vm_ids: Iterable[str]
) -> tuple[Mapping[Id, Instance], Mapping[str, ProviderError]]:
    """Google's records of the VMs that it lists, and the zones that could not be read.

    Omits a VM that has a matching name but another number.
    """
    vms = {vm for vm in map(Id.parse, vm_ids) if vm is not None and in_region(vm.zone, region)}
    zones = {zone: {vm for vm in vms if vm.zone == zone} for zone in sorted({vm.zone for vm in vms})}
    answers, failed = ask_each(zones, lambda zone: _in_zone(clients, zone, zones[zone]))
    return {key: instance for instances in answers.values() for key, instance in instances.items()}, failed


def _in_zone(clients: GcpClients, zone: str, ids: Collection[Id]) -> Mapping[Id, Instance]:
    """Reads one list per fifty VMs."""
    instances: dict[Id, Instance] = {}
    for chunk in chunks(sorted({vm.name for vm in ids}), NAMES_PER_CALL):
        for page in clients.pages(clients.of(InstancesClient).list, zone=zone, filter=either("name", chunk)):
            listed_instances = ((Id(zone, instance.name, str(instance.id)), instance) for instance in page.items)
            instances.update((key, instance) for key, instance in listed_instances if key in ids)
    return instances


def get(clients: GcpClients, region: str, vm_ids: Sequence[str]) -> dict[str, Vm | None]:
    """VMs by id. For VMs that no list shows, reads their operations.

    A VM that neither shows, and one whose insert may have left it, is read directly, one call per VM. Only then it counts
    as unknown to Google, or as refused.
    """
    ids = {vm_id for vm_id in map(Id.parse, vm_ids) if vm_id is not None and in_region(vm_id.zone, region)}
    listed_vms, failed = with_ids(clients, region, vm_ids)
    read, odd = ask_each(
        {str(key): key for key in listed_vms},
        lambda vm_id: from_instance(listed_vms[cast(Id, Id.parse(vm_id))], region),
    )
    explained, unexplained = _explained(clients, region, list(read.values()))
    histories, silent = operations.of_vms(clients, (vm for vm in ids.difference(listed_vms) if vm.zone not in failed))
    fates = {str(key): operations.fate(key, region, history) for key, history in histories.items()}
    unsure = {
        str(key): key
        for key, history in histories.items()
        if fates[str(key)] is None or operations.ends_in_doubt(history)
    }
    direct, lost = ask_each(unsure, lambda key: directly(clients, region, unsure[key].zone, unsure[key].number))
    vms: dict[str, Vm | None] = dict.fromkeys(set(vm_ids).difference(map(str, ids)))
    vms |= {vm.id: vm for vm in explained} | {key: vm for key, vm in fates.items() if key not in unsure}
    vms |= {key: vm or fates[key] for key, vm in direct.items()}
    leave_out(vms, {**failed, **unexplained, **silent, **lost, **odd})
    return vms


def directly(clients: GcpClients, region: str, zone: str, instance: str) -> Vm | None:
    """The VM of this name or number, or None. Makes one call."""
    try:
        return from_instance(clients.ask(clients.of(InstancesClient).get, zone=zone, instance=instance), region)
    except NotFound:
        return None


def named(clients: GcpClients, region: str, name: str) -> list[Vm]:
    """VMs of this name that Google lists. Raises OutcomeUnknown when a zone of the region is unreachable."""
    name_filter = f'name = "{name}"'
    pages = clients.pages(clients.of(InstancesClient).aggregated_list, filter=name_filter)
    return [
        from_instance(vm, region) for page in pages for _, scope in complete(page, region) for vm in scope.instances
    ]


def find(clients: GcpClients, region: str, name: str, owner: OwnerTags) -> Vm | None:
    """The owner's VM of this name, or None.

    If Google lists no VM of this name, returns the VM as its operations describe it: only this launch uses the name.
    """
    listed_vms = named(clients, region, name)
    if listed_vms:
        return next((vm for vm in listed_vms if resource_tags.belongs(vm.tags, owner)), None)
    histories = operations.of_name(clients, region, name)
    fates = (settled(clients, region, key, history) for key, history in histories.items())
    return next((vm for vm in fates if vm is not None), None)


def settled(clients: GcpClients, region: str, vm: Id, history: Sequence[Operation]) -> Vm | None:
    """As `operations.fate`. Reads a VM directly whose insert has failed and may have left it."""
    left = directly(clients, region, vm.zone, vm.number) if operations.ends_in_doubt(history) else None
    return left or operations.fate(vm, region, history)


def ready(clients: GcpClients, region: str, vm_ids: Sequence[str]) -> frozenset[str]:
    """VMs that have written the guest attribute. Makes one call per VM, because Google has no batch call."""
    known = {str(vm): vm for vm in map(Id.parse, vm_ids) if vm is not None and in_region(vm.zone, region)}
    answers = answered(known, lambda vm_id: _is_ready(clients, known[vm_id]))
    return frozenset(vm_id for vm_id, is_ready in answers.items() if is_ready)


def _is_ready(clients: GcpClients, vm: Id) -> bool:
    method = clients.of(InstancesClient).get_guest_attributes
    try:
        answer = clients.ask(method, zone=vm.zone, instance=vm.number, query_path=READY)
    except NotFound:
        return False
    return any(f"{item.namespace}/{item.key}" == READY for item in answer.query_value.items)


def terminate(clients: GcpClients, region: str, vm_ids: Sequence[str]) -> BatchResult:
    """Requests deletion of the VMs that exist, by number, so that a later VM of the same name is never deleted."""
    return each(vm_ids, lambda vm_id: _terminate(clients, region, vm_id))


def _terminate(clients: GcpClients, region: str, vm_id: str) -> bool:
    """Requests deletion of a VM. Returns whether Google knows the VM."""
    vm = Id.parse(vm_id)
    if vm is None or not in_region(vm.zone, region):
        return False
    try:
        clients.ask(clients.of(InstancesClient).delete_unary, zone=vm.zone, instance=vm.number)
    except NotFound:
        return False
    return True


def reboot(clients: GcpClients, region: str, vm_ids: Sequence[str]) -> BatchResult:
    """Resets each VM. Refused with NotFound, or with NotReady for a VM that does not run."""
    return each(vm_ids, lambda vm_id: _reset(clients, region, vm_id))


def _reset(clients: GcpClients, region: str, vm_id: str) -> bool:
    vm = addressed(vm_id, region)
    clients.ask(clients.of(InstancesClient).reset_unary, zone=vm.zone, instance=vm.number)
    return True


def addressed(vm_id: str, region: str) -> Id:
    """The parts of an id. Raises NotFound for an id that names no VM of this region."""
    vm = Id.parse(vm_id)
    if vm is None or not in_region(vm.zone, region):
        raise NotFound(f"{vm_id} names no VM of {region}", code="notFound")
    return vm


def console_output(clients: GcpClients, region: str, vm_id: str) -> str:
    """The end of what the first serial port printed, as clean text."""
    vm = addressed(vm_id, region)
    method = clients.of(InstancesClient).get_serial_port_output
    return clean(clients.ask(method, zone=vm.zone, instance=vm.number).contents)
