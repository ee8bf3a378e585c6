"""Operations on VMs: listings, reads by id, termination and restart.

No Azure listing has both tags and power states. The listing of the resource group has existence and tags. The listing
of statuses (`statusOnly`, of the whole subscription) has power states. Network interfaces and public addresses have
listings of their own. Two paged listings show what runs in a region with any number of VMs. Addresses are read only
with VMs whose state is changing.
"""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace

import structlog

from app.domain.tags import INSTALLATION
from workers.providers.azure import listings, names, nics, vms
from workers.providers.azure.calls import Document, known, part
from workers.providers.azure.clients import Group
from workers.providers.azure.errors import GONE, translated
from workers.providers.azure.vms import Addresses
from workers.providers.common.batch import answered, ask_each, each
from workers.providers.common.regions import Regions
from workers.providers.errors import NotFound, ProviderError, Throttled
from workers.providers.types import BatchResult, ListingPage, Vm

log = structlog.get_logger(__name__)

_WITH_STATUS = "instanceView"
_MOST_DIRECT = 20
"""Maximum number of VMs that are read one by one. For more VMs the listings cost less."""


def listed(group: Group, regions: frozenset[str], installation: str | None = None) -> Iterator[ListingPage]:
    """Pages of the VMs of some regions with their addresses, or of one installation's VMs without addresses.

    The statuses are listed after the VMs, so that the statuses lack only VMs that were deleted in between.
    """
    vm_pages = [
        [vm for vm in page if _is_wanted(vm, regions, installation)] for page in listings.pages(group, listings.VMS)
    ]
    statuses = _statuses(group) if any(vm_pages) else {}
    addresses = nics.by_id(group) if any(vm_pages) and installation is None else {}
    scan = Regions(regions)
    for page in vm_pages:
        seen: list[Vm | None] = []
        for vm in page:
            region = _region(vm)
            if region not in scan.failed:
                with scan.reading(region):
                    seen.append(_with_details(group, vm, statuses, addresses))
        yield ListingPage(vms=[vm for vm in seen if vm is not None], failed=dict(scan.failed))


def listed_everywhere(group: Group, installation: str) -> Iterator[ListingPage]:
    """Pages of one installation's VMs in all resource groups and regions of the subscription.

    The VMs lack power states and addresses. A VM that cannot be read makes its region count as failed.
    """
    for page in listings.pages(group, listings.ALL_VMS):
        yield _of_all_regions(group, [vm for vm in page if (vm.get("tags") or {}).get(INSTALLATION) == installation])


def _of_all_regions(group: Group, documents: Sequence[Document]) -> ListingPage:
    by_number = {str(number): vm for number, vm in enumerate(documents)}
    read, failed = ask_each(by_number, lambda number: _with_group(group, by_number[number]))
    regions = {str(by_number[number].get("location", "unknown")).lower(): error for number, error in failed.items()}
    return ListingPage(vms=list(read.values()), failed=regions)


def _with_group(group: Group, document: Document) -> Vm:
    """A VM with an id by which `terminate` finds it in any resource group."""
    vm = vms.from_document(document, None)
    theirs = names.group_in(part(document, "id"))
    return vm if theirs == group.name.lower() else replace(vm, id=names.in_group(theirs, vm.id))


def _is_wanted(vm: Document, regions: frozenset[str], installation: str | None) -> bool:
    here = _region(vm) in regions
    return here and (installation is None or (vm.get("tags") or {}).get(INSTALLATION) == installation)


def _region(vm: Document) -> str:
    location: str = part(vm, "location")
    return location.lower()


def _statuses(group: Group) -> Mapping[str, Document]:
    """Instance views by VM id in lower case."""
    documents = listings.items(group, listings.ALL_VMS, query={"statusOnly": "true"})
    statuses = {vm["id"].lower(): part(vm, "properties").get("instanceView") for vm in documents}
    return {vm_id: view for vm_id, view in statuses.items() if view is not None}


def _with_details(
    group: Group, vm: Document, statuses: Mapping[str, Document], addresses: Mapping[str, Addresses]
) -> Vm | None:
    """A listed VM with its power state and address; None for a VM that was deleted during the listing.

    A VM whose instance view cannot be read counts as neither running nor lost.
    """
    view = statuses.get(vm["id"].lower())
    if view is None:
        try:
            view = known(group.compute.virtual_machines.instance_view, group.name, vm["name"])
        except Throttled:
            raise
        except ProviderError as error:
            log.warning("VM state not read", name=vm["name"], code=error.code, error=error.message)
            return vms.from_document(vm, None)
    if view is None:
        return None
    first = next(iter(nics.ids_of(vm)), "")
    return vms.from_document(vm, view, addresses.get(first.lower()))


def named(group: Group, region: str, name: str) -> Vm | None:
    """One VM of a region by its name, or None."""
    document = document_of(group, name)
    if document is None or _region(document) != region:
        return None
    return of_document(group, document)


def of_document(group: Group, document: Document) -> Vm:
    return vms.from_document(document, part(document, "properties").get("instanceView"), nics.of_vm(group, document))


def document_of(group: Group, name: str, vm_id: str | None = None) -> Document | None:
    """Azure's own record with the instance view. None when no VM, or another VM, has this name."""
    document = known(group.compute.virtual_machines.get, group.name, name, expand=_WITH_STATUS)
    if document is None or (vm_id is not None and part(document, "properties", "vmId").lower() != vm_id):
        return None
    return document


def with_ids(group: Group, region: str, ids: Sequence[str]) -> dict[str, Vm | None]:
    """Reads few VMs one by one and many from the listings. VMs that the listings lack are read one by one."""
    listed_vms: dict[str, Vm] = {}
    if len(ids) > _MOST_DIRECT:
        listed_vms = {vm.id: vm for page in listed(group, frozenset({region})) for vm in page.vms}
    return answered(ids, lambda vm_id: listed_vms.get(vm_id) or _direct(group, region, vm_id))


def _direct(group: Group, region: str, vm_id: str) -> Vm | None:
    vm = named(group, region, names.split(vm_id)[0])
    return vm if vm is not None and vm.id == vm_id else None


def require(group: Group, vm_id: str) -> Document:
    """The record of a VM. Raises NotFound when Azure has no such VM, or another VM of the same name."""
    document = document_of(group, *names.split(vm_id))
    if document is None:
        raise NotFound(f"Azure does not show {vm_id}", code=GONE)
    return document


def ready(group: Group, ids: Sequence[str]) -> frozenset[str]:
    """VMs whose agent reports itself ready. No listing contains this state of several VMs."""
    documents = answered(ids, lambda vm_id: document_of(group, *names.split(vm_id)))
    return frozenset(vm_id for vm_id, document in documents.items() if document is not None and _is_ready(document))


def _is_ready(document: Document) -> bool:
    return vms.agent_is_ready(part(document, "properties").get("instanceView") or {})


def terminate(group: Group, ids: Sequence[str]) -> BatchResult:
    """Requests deletion of the VMs that exist.

    Deletion frees the VM and, by their delete options, the resources that were created with it.
    """
    listed_ids: frozenset[str] = frozenset()
    if len(ids) > _MOST_DIRECT:
        with suppress(ProviderError):
            listed_ids = frozenset(_listed_ids(group))
    return each(ids, lambda vm_id: _terminate(group, vm_id, listed_ids))


def _listed_ids(group: Group) -> Iterator[str]:
    documents = (vm for page in listings.pages(group, listings.VMS) for vm in page)
    return (names.join(part(vm, "name"), part(vm, "properties", "vmId")) for vm in documents)


def _terminate(group: Group, full_id: str, listed_ids: frozenset[str]) -> bool:
    """Requests deletion of exactly this VM. Returns whether Azure knew the VM.

    A DELETE addresses a VM by its name alone, so the vmId is compared first.
    """
    try:
        name, vm_id = names.split(full_id)
    except NotFound:
        return False
    theirs = replace(group, name=names.group_of(full_id) or group.name)
    if full_id not in listed_ids and document_of(theirs, name, vm_id) is None:
        return False
    try:
        with translated():
            theirs.compute.virtual_machines.begin_delete(theirs.name, name, force_deletion=True, polling=False)
    except NotFound as error:
        if error.code != GONE:
            raise
        return False
    return True


def restart(group: Group, ids: Sequence[str]) -> BatchResult:
    """Requests a restart and returns. Refused with NotFound, or with InvalidSpec for a VM that cannot restart."""
    return each(ids, lambda vm_id: _restart(group, vm_id))


def _restart(group: Group, vm_id: str) -> bool:
    name = part(require(group, vm_id), "name")
    with translated():
        group.compute.virtual_machines.begin_restart(group.name, name, polling=False)
    return True
