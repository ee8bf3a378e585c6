"""Looking at instances and ending them: lists, gets by id, names, guest attributes."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace

from app.domain import tags
from app.domain.leases import VmState
from app.domain.offerings import Market
from app.domain.tags import OwnerTags
from workers.providers.base import NotFound, Page, Vm
from workers.providers.console import clean
from workers.providers.gcp import labels, operations
from workers.providers.gcp.calls import chunks, complete, either, scoped
from workers.providers.gcp.clients import Clients
from workers.providers.gcp.ids import Id, in_region
from workers.providers.gcp.sdk import Instance, InstancesClient
from workers.providers.gcp.vms import from_instance
from workers.providers.one_by_one import answered
from workers.providers.regions import Regions

READY = "gpulease/ready"
"""The guest attribute that the VM writes at the end of its boot: namespace and key."""

_NAMES_PER_CALL = 50
_LEAVING = frozenset({VmState.ENDING, VmState.STOPPED})


def listed(clients: Clients, regions: frozenset[str], installation: str) -> Iterator[Page]:
    """Pages of this installation's VMs in some regions; Google's pages are those of all regions."""
    wanted = labels.having(tags.INSTALLATION, installation)
    asked = Regions(regions)
    for page in clients.pages(clients.of(InstancesClient).aggregated_list, filter=wanted):
        vms: list[Vm] = []
        lost: frozenset[str] = frozenset()
        for region in asked.told:
            with asked.reading(region):
                found, unreachable = scoped(page, region)
                shown = [from_instance(one, region) for _, scope in found for one in scope.instances]
                vms += _explained(clients, region, shown)
                lost |= unreachable
        yield Page(vms=vms, unreachable=lost, failed=dict(asked.failed))


def _explained(clients: Clients, region: str, vms: Sequence[Vm]) -> list[Vm]:
    """The VMs, those of them marked that Google takes back: operations tell it of spot VMs that are ending or have stopped."""
    leaving = {vm.id for vm in vms if vm.market is Market.SPOT and vm.state in _LEAVING}
    told = operations.of_vms(clients, filter(None, map(Id.parse, leaving)))
    fates = {str(key): operations.fate(key, region, found) for key, found in told.items()}
    taken = {vm_id for vm_id, fate in fates.items() if fate is not None and fate.interrupted}
    return [replace(vm, interrupted=True) if vm.id in taken else vm for vm in vms]


def with_ids(clients: Clients, region: str, vm_ids: Iterable[str]) -> Mapping[Id, Instance]:
    """Google's records of those that show, by one list per fifty VMs of a zone. A name with another number is left out."""
    wanted = {one for one in map(Id.parse, vm_ids) if one is not None and in_region(one.zone, region)}
    found: dict[Id, Instance] = {}
    for zone in sorted({one.zone for one in wanted}):
        names = sorted({one.name for one in wanted if one.zone == zone})
        for chunk in chunks(names, _NAMES_PER_CALL):
            for page in clients.pages(clients.of(InstancesClient).list, zone=zone, filter=either("name", chunk)):
                shown = ((Id(zone, one.name, str(one.id)), one) for one in page.items)
                found.update((key, one) for key, one in shown if key in wanted)
    return found


def get(clients: Clients, region: str, vm_ids: Sequence[str]) -> dict[str, Vm | None]:
    """By id; operations tell of those that do not show.

    What neither explains is asked for directly, one by one, before it counts as unknown to Google.
    """
    asked = {one for one in map(Id.parse, vm_ids) if one is not None and in_region(one.zone, region)}
    shown = with_ids(clients, region, vm_ids)
    vms: dict[str, Vm | None] = dict.fromkeys(vm_ids)
    vms |= {vm.id: vm for vm in _explained(clients, region, [from_instance(one, region) for one in shown.values()])}
    for key, told in operations.of_vms(clients, asked.difference(shown)).items():
        vms[str(key)] = operations.fate(key, region, told) or _directly(clients, region, key)
    return vms


def _directly(clients: Clients, region: str, vm: Id) -> Vm | None:
    try:
        return from_instance(clients.ask(clients.of(InstancesClient).get, zone=vm.zone, instance=vm.number), region)
    except NotFound:
        return None


def named(clients: Clients, region: str, name: str) -> list[Vm]:
    """VMs of this name that show. Raises OutcomeUnknown when a zone of the region is out of reach."""
    wanted = f'name = "{name}"'
    pages = clients.pages(clients.of(InstancesClient).aggregated_list, filter=wanted)
    return [
        from_instance(one, region) for page in pages for _, scope in complete(page, region) for one in scope.instances
    ]


def find(clients: Clients, region: str, name: str, owner: OwnerTags) -> Vm | None:
    """The owner's VM of this name; else what the operations on this name tell, for the name is ours alone."""
    shown = named(clients, region, name)
    if shown:
        return next((vm for vm in shown if labels.belongs(vm.tags, owner)), None)
    told = operations.of_name(clients, region, name)
    fates = (operations.fate(key, region, found) for key, found in told.items())
    return next((vm for vm in fates if vm is not None), None)


def ready(clients: Clients, region: str, vm_ids: Sequence[str]) -> frozenset[str]:
    """Those that have written the guest attribute: one call each, because Google has none for several."""
    known = {str(one): one for one in map(Id.parse, vm_ids) if one is not None and in_region(one.zone, region)}
    return frozenset(one for one, ready in answered(known, lambda one: _is_ready(clients, known[one])).items() if ready)


def _is_ready(clients: Clients, vm: Id) -> bool:
    method = clients.of(InstancesClient).get_guest_attributes
    try:
        answer = clients.ask(method, zone=vm.zone, instance=vm.number, query_path=READY)
    except NotFound:
        return False
    return any(f"{item.namespace}/{item.key}" == READY for item in answer.query_value.items)


def terminate(clients: Clients, region: str, vm_ids: Sequence[str]) -> frozenset[str]:
    """Asks for the end of those that exist, by number, so that a later VM of the same name is never meant."""
    known = set()
    for text in vm_ids:
        one = Id.parse(text)
        if one is None or not in_region(one.zone, region):
            continue
        try:
            clients.ask(clients.of(InstancesClient).delete_unary, zone=one.zone, instance=one.number)
        except NotFound:
            continue
        known.add(text)
    return frozenset(known)


def reboot(clients: Clients, region: str, vm_ids: Sequence[str]) -> None:
    """Resets each. Raises NotFound, or InvalidSpec for one that does not run."""
    for text in vm_ids:
        one = addressed(text, region)
        clients.ask(clients.of(InstancesClient).reset_unary, zone=one.zone, instance=one.number)


def addressed(vm_id: str, region: str) -> Id:
    """The parts of an id. Raises NotFound for one that names no VM of this region."""
    one = Id.parse(vm_id)
    if one is None or not in_region(one.zone, region):
        raise NotFound(f"{vm_id} names no VM of {region}", code="notFound")
    return one


def console_output(clients: Clients, region: str, vm_id: str) -> str:
    """The end of what the first serial port printed, as clean text."""
    one = addressed(vm_id, region)
    method = clients.of(InstancesClient).get_serial_port_output
    return clean(clients.ask(method, zone=one.zone, instance=one.number).contents)
