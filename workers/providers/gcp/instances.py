"""Looking at instances and ending them: lists, gets by id, names, guest attributes."""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from app.domain import tags
from app.domain.leases import VmState
from app.domain.offerings import Market
from app.domain.tags import OwnerTags
from workers.providers.common.batch import answered, ask_each, each, leave_out
from workers.providers.common.console import clean
from workers.providers.common.regions import Regions
from workers.providers.errors import NotFound, ProviderError
from workers.providers.gcp import operations, resource_tags
from workers.providers.gcp.calls import chunks, complete, either, everywhere, scoped
from workers.providers.gcp.clients import GcpClients
from workers.providers.gcp.ids import Id, in_region, region_of
from workers.providers.gcp.sdk import Instance, InstancesClient
from workers.providers.gcp.vms import from_instance
from workers.providers.types import BatchResult, ListingPage, Vm

READY = "gpulease/ready"
"""The guest attribute that the VM writes at the end of its boot: namespace and key."""

_NAMES_PER_CALL = 50
_LEAVING = frozenset({VmState.ENDING, VmState.STOPPED})


def listed(clients: GcpClients, regions: frozenset[str], installation: str) -> Iterator[ListingPage]:
    """Pages of this installation's VMs in some regions; Google's pages are those of all regions."""
    wanted = resource_tags.having(tags.INSTALLATION, installation)
    asked = Regions(regions)
    for page in clients.pages(clients.of(InstancesClient).aggregated_list, filter=wanted):
        vms: list[Vm] = []
        lost: frozenset[str] = frozenset()
        for region in asked.told:
            with asked.reading(region):
                found, unreachable = scoped(page, region)
                shown = [from_instance(one, region) for _, scope in found for one in scope.instances]
                explained, silent = _explained(clients, region, shown)
                vms += explained
                lost |= unreachable | silent.keys()
        yield ListingPage(vms=vms, unreachable=lost, failed=dict(asked.failed))


def listed_everywhere(clients: GcpClients, installation: str) -> Iterator[ListingPage]:
    """Pages of this installation's VMs in all zones. Operations are not asked for: they need a right of their own.

    A VM that cannot be read makes its zone count as out of reach.
    """
    wanted = resource_tags.having(tags.INSTALLATION, installation)
    for page in clients.pages(clients.of(InstancesClient).aggregated_list, filter=wanted):
        yield _of_all_zones(page)


def _of_all_zones(page: Any) -> ListingPage:
    found, unreachable = everywhere(page)
    shown = {f"{zone}/{one.name}": (zone, one) for zone, scope in found for one in scope.instances}
    read, failed = ask_each(shown, lambda key: from_instance(shown[key][1], region_of(shown[key][0])))
    return ListingPage(vms=list(read.values()), unreachable=unreachable.union(shown[key][0] for key in failed))


def _explained(clients: GcpClients, region: str, vms: Sequence[Vm]) -> tuple[list[Vm], Mapping[str, ProviderError]]:
    """The VMs, those of them marked that Google takes back: operations tell it of spot VMs that are ending or have stopped.

    A VM whose operations cannot be read is left out, and its zone is in the second part: nobody knows yet why that VM ends.
    """
    leaving = [vm for vm in vms if vm.market is Market.SPOT and vm.state in _LEAVING]
    told, silent = operations.of_vms(clients, filter(None, (Id.parse(vm.id) for vm in leaving)))
    fates = {str(key): operations.fate(key, region, found) for key, found in told.items()}
    taken = {vm_id for vm_id, fate in fates.items() if fate is not None and fate.interrupted}
    unexplained = {vm.id for vm in leaving if vm.zone in silent}
    explained = [replace(vm, interrupted=True) if vm.id in taken else vm for vm in vms if vm.id not in unexplained]
    return explained, silent


def with_ids(
    clients: GcpClients, region: str, vm_ids: Iterable[str]
) -> tuple[Mapping[Id, Instance], Mapping[str, ProviderError]]:
    """Google's records of those that show, and the zones that could not be asked. A name with another number is left out."""
    wanted = {one for one in map(Id.parse, vm_ids) if one is not None and in_region(one.zone, region)}
    zones = {zone: {one for one in wanted if one.zone == zone} for zone in sorted({one.zone for one in wanted})}
    answers, failed = ask_each(zones, lambda zone: _in_zone(clients, zone, zones[zone]))
    return {key: one for found in answers.values() for key, one in found.items()}, failed


def _in_zone(clients: GcpClients, zone: str, wanted: Collection[Id]) -> Mapping[Id, Instance]:
    """One list per fifty VMs."""
    found: dict[Id, Instance] = {}
    for chunk in chunks(sorted({one.name for one in wanted}), _NAMES_PER_CALL):
        for page in clients.pages(clients.of(InstancesClient).list, zone=zone, filter=either("name", chunk)):
            shown = ((Id(zone, one.name, str(one.id)), one) for one in page.items)
            found.update((key, one) for key, one in shown if key in wanted)
    return found


def get(clients: GcpClients, region: str, vm_ids: Sequence[str]) -> dict[str, Vm | None]:
    """By id; operations tell of those that do not show.

    What neither explains is asked for directly, one by one, before it counts as unknown to Google.
    """
    asked = {one for one in map(Id.parse, vm_ids) if one is not None and in_region(one.zone, region)}
    shown, failed = with_ids(clients, region, vm_ids)
    explained, unexplained = _explained(clients, region, [from_instance(one, region) for one in shown.values()])
    told, silent = operations.of_vms(clients, (one for one in asked.difference(shown) if one.zone not in failed))
    fates = {str(key): operations.fate(key, region, found) for key, found in told.items()}
    hidden = {str(key): key for key in told if fates[str(key)] is None}
    direct, lost = ask_each(hidden, lambda key: _directly(clients, region, hidden[key]))
    vms: dict[str, Vm | None] = dict.fromkeys(set(vm_ids).difference(map(str, asked)))
    vms |= {vm.id: vm for vm in explained} | {key: vm for key, vm in fates.items() if vm is not None} | direct
    leave_out(vms, {**failed, **unexplained, **silent, **lost})
    return vms


def _directly(clients: GcpClients, region: str, vm: Id) -> Vm | None:
    try:
        return from_instance(clients.ask(clients.of(InstancesClient).get, zone=vm.zone, instance=vm.number), region)
    except NotFound:
        return None


def named(clients: GcpClients, region: str, name: str) -> list[Vm]:
    """VMs of this name that show. Raises OutcomeUnknown when a zone of the region is out of reach."""
    wanted = f'name = "{name}"'
    pages = clients.pages(clients.of(InstancesClient).aggregated_list, filter=wanted)
    return [
        from_instance(one, region) for page in pages for _, scope in complete(page, region) for one in scope.instances
    ]


def find(clients: GcpClients, region: str, name: str, owner: OwnerTags) -> Vm | None:
    """The owner's VM of this name; else what the operations on this name tell, for the name is ours alone."""
    shown = named(clients, region, name)
    if shown:
        return next((vm for vm in shown if resource_tags.belongs(vm.tags, owner)), None)
    told = operations.of_name(clients, region, name)
    fates = (operations.fate(key, region, found) for key, found in told.items())
    return next((vm for vm in fates if vm is not None), None)


def ready(clients: GcpClients, region: str, vm_ids: Sequence[str]) -> frozenset[str]:
    """Those that have written the guest attribute: one call each, because Google has none for several."""
    known = {str(one): one for one in map(Id.parse, vm_ids) if one is not None and in_region(one.zone, region)}
    return frozenset(one for one, ready in answered(known, lambda one: _is_ready(clients, known[one])).items() if ready)


def _is_ready(clients: GcpClients, vm: Id) -> bool:
    method = clients.of(InstancesClient).get_guest_attributes
    try:
        answer = clients.ask(method, zone=vm.zone, instance=vm.number, query_path=READY)
    except NotFound:
        return False
    return any(f"{item.namespace}/{item.key}" == READY for item in answer.query_value.items)


def terminate(clients: GcpClients, region: str, vm_ids: Sequence[str]) -> BatchResult:
    """Asks for the end of those that exist, by number, so that a later VM of the same name is never meant."""
    return each(vm_ids, lambda vm_id: _terminate(clients, region, vm_id))


def _terminate(clients: GcpClients, region: str, vm_id: str) -> bool:
    """Whether Google knows the VM."""
    one = Id.parse(vm_id)
    if one is None or not in_region(one.zone, region):
        return False
    try:
        clients.ask(clients.of(InstancesClient).delete_unary, zone=one.zone, instance=one.number)
    except NotFound:
        return False
    return True


def reboot(clients: GcpClients, region: str, vm_ids: Sequence[str]) -> BatchResult:
    """Resets each. Refused with NotFound, or with InvalidSpec: one that does not run."""
    return each(vm_ids, lambda vm_id: _reset(clients, region, vm_id))


def _reset(clients: GcpClients, region: str, vm_id: str) -> bool:
    one = addressed(vm_id, region)
    clients.ask(clients.of(InstancesClient).reset_unary, zone=one.zone, instance=one.number)
    return True


def addressed(vm_id: str, region: str) -> Id:
    """The parts of an id. Raises NotFound for one that names no VM of this region."""
    one = Id.parse(vm_id)
    if one is None or not in_region(one.zone, region):
        raise NotFound(f"{vm_id} names no VM of {region}", code="notFound")
    return one


def console_output(clients: GcpClients, region: str, vm_id: str) -> str:
    """The end of what the first serial port printed, as clean text."""
    one = addressed(vm_id, region)
    method = clients.of(InstancesClient).get_serial_port_output
    return clean(clients.ask(method, zone=one.zone, instance=one.number).contents)
