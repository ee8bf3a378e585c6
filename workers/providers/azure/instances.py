"""Looking at VMs and ending them.

Azure has no listing with tags and power states in one: the group's listing tells existence and tags, the listing of
statuses (`statusOnly`, of the whole subscription) the power states, and interfaces and public addresses have listings of
their own. Two listings of pages show what runs in a region, whatever that is; addresses are read with the VMs in change alone.
"""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace

import structlog
from azure.core import MatchConditions

from app.domain.leases import VmState
from app.domain.tags import ATTEMPT, INSTALLATION, LEASE
from workers.providers.azure import interfaces, listings, names, resource_tags, vms
from workers.providers.azure.calls import Document, known, part
from workers.providers.azure.clients import Group
from workers.providers.azure.errors import GONE, translated
from workers.providers.azure.launch import REQUEST
from workers.providers.azure.vms import Addresses
from workers.providers.common.batch import answered, ask_each, each
from workers.providers.common.regions import Regions
from workers.providers.errors import InvalidSpec, NotFound, OutcomeUnknown, ProviderError, Throttled, TokenConflict
from workers.providers.send_window import require_open_window
from workers.providers.types import BatchResult, ListingPage, Params, Vm

log = structlog.get_logger(__name__)

_WITH_STATUS = "instanceView"
_SAME = (INSTALLATION, LEASE, ATTEMPT, REQUEST)
"""Tags that tell that a VM came from the same launch with the same parameters."""
_MOST_DIRECT = 20
"""So many VMs are asked for one by one; more of them by the listings, which cost less then."""


def create(group: Group, params: Params) -> Vm:
    """Makes the VM of these parameters, or reads it back when it is there already.

    Raises TokenConflict when what is there has other owners or came from other parameters. Once Azure has accepted the
    PUT, or says that something has the name, a read that fails never means that nothing was done.
    """
    name, body = params["name"], params["vm"]
    require_open_window()
    try:
        with translated(creating=True):
            poller = group.compute.virtual_machines.begin_create_or_update(
                group.name, name, body, etag="*", match_condition=MatchConditions.IfMissing, polling=False
            )
            made: Document = poller.result()
    except TokenConflict as conflict:
        return _read_back(group, params, conflict)
    except NotFound as error:
        raise InvalidSpec(error.message, code=error.code) from None
    vm = vms.from_document(made, None)
    return _with_failure(group, name, vm) if vm.state is VmState.STOPPED else vm


def _with_failure(group: Group, name: str, vm: Vm) -> Vm:
    """A VM that has failed by now, with the reason, which its instance view alone has.

    Where that cannot be read the VM counts as starting, and the watch reads it later.
    """
    try:
        failed = document_of(group, name)
        return vm if failed is None else _of_document(group, failed)
    except ProviderError:
        return replace(vm, state=VmState.PENDING)


def _read_back(group: Group, params: Params, conflict: TokenConflict) -> Vm:
    name = params["name"]
    try:
        found = document_of(group, name)
    except ProviderError as error:
        raise OutcomeUnknown(f"{name} exists and cannot be read: {error.message}", code=error.code) from None
    if found is None:
        raise OutcomeUnknown(f"{name} exists and is not shown: {conflict.message}", code=conflict.code)
    theirs, ours = resource_tags.read(found.get("tags")), params["vm"]["tags"]
    if any(theirs.get(key) != ours[key] for key in _SAME):
        raise conflict
    try:
        return _of_document(group, found)
    except ProviderError:
        return vms.from_document(found, part(found, "properties").get("instanceView"))


def listed(group: Group, regions: frozenset[str], installation: str | None = None) -> Iterator[ListingPage]:
    """Pages of the VMs of some regions with their addresses, or of one installation's without them.

    The listing of statuses comes after that of the VMs, so that it lacks only VMs that have gone since.
    """
    found = [
        [vm for vm in page if _is_wanted(vm, regions, installation)] for page in listings.pages(group, listings.VMS)
    ]
    statuses = _statuses(group) if any(found) else {}
    addresses = interfaces.by_id(group) if any(found) and installation is None else {}
    asked = Regions(regions)
    for page in found:
        seen: list[Vm | None] = []
        for vm in page:
            region = _region(vm)
            if region not in asked.failed:
                with asked.reading(region):
                    seen.append(_with_details(group, vm, statuses, addresses))
        yield ListingPage(vms=[vm for vm in seen if vm is not None], failed=dict(asked.failed))


def listed_everywhere(group: Group, installation: str) -> Iterator[ListingPage]:
    """Pages of one installation's VMs in all groups and regions of the subscription, without power states and addresses.

    A VM that cannot be read makes its region count as failed.
    """
    for page in listings.pages(group, listings.ALL_VMS):
        yield _of_all_regions(group, [vm for vm in page if (vm.get("tags") or {}).get(INSTALLATION) == installation])


def _of_all_regions(group: Group, documents: Sequence[Document]) -> ListingPage:
    shown = {str(number): vm for number, vm in enumerate(documents)}
    read, failed = ask_each(shown, lambda number: _with_group(group, shown[number]))
    regions = {str(shown[number].get("location", "unknown")).lower(): error for number, error in failed.items()}
    return ListingPage(vms=list(read.values()), failed=regions)


def _with_group(group: Group, document: Document) -> Vm:
    """A VM with an id by which `terminate` finds it, whatever its resource group."""
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
    """Instance views by VM, ids in lower case."""
    every = listings.items(group, listings.ALL_VMS, query={"statusOnly": "true"})
    statuses = {one["id"].lower(): part(one, "properties").get("instanceView") for one in every}
    return {one: view for one, view in statuses.items() if view is not None}


def _with_details(
    group: Group, vm: Document, statuses: Mapping[str, Document], addresses: Mapping[str, Addresses]
) -> Vm | None:
    """None for a VM that went while it was listed. One whose view cannot be read counts as neither running nor lost."""
    view = statuses.get(vm["id"].lower())
    if view is None:
        try:
            view = known(group.compute.virtual_machines.instance_view, group.name, vm["name"])
        except Throttled:
            raise
        except ProviderError as error:
            log.warning("VM state not read", name=vm["name"], code=error.code, error=error.message)
            shown = vms.from_document(vm, None)
            return shown if shown.state is VmState.ENDING else replace(shown, state=VmState.PENDING, ended_at=None)
    if view is None:
        return None
    first = next(iter(interfaces.ids_of(vm)), "")
    return vms.from_document(vm, view, addresses.get(first.lower()))


def named(group: Group, region: str, name: str) -> Vm | None:
    """One VM of a region by its name, or None."""
    document = document_of(group, name)
    if document is None or _region(document) != region:
        return None
    return _of_document(group, document)


def _of_document(group: Group, document: Document) -> Vm:
    return vms.from_document(
        document, part(document, "properties").get("instanceView"), interfaces.of_vm(group, document)
    )


def document_of(group: Group, name: str, vm_id: str | None = None) -> Document | None:
    """Azure's own record with the instance view; None when there is none, or another VM has this name."""
    found = known(group.compute.virtual_machines.get, group.name, name, expand=_WITH_STATUS)
    if found is None or (vm_id is not None and part(found, "properties", "vmId").lower() != vm_id):
        return None
    return found


def with_ids(group: Group, region: str, ids: Sequence[str]) -> dict[str, Vm | None]:
    """One by one when they are few, else from the listings; what those do not show is asked for again."""
    shown: dict[str, Vm] = {}
    if len(ids) > _MOST_DIRECT:
        shown = {vm.id: vm for page in listed(group, frozenset({region})) for vm in page.vms}
    return answered(ids, lambda one: shown.get(one) or _direct(group, region, one))


def _direct(group: Group, region: str, one: str) -> Vm | None:
    vm = named(group, region, names.split(one)[0])
    return vm if vm is not None and vm.id == one else None


def require(group: Group, one: str) -> Document:
    """The record of a VM. Raises NotFound when Azure has none, or another of the same name."""
    found = document_of(group, *names.split(one))
    if found is None:
        raise NotFound(f"Azure does not show {one}", code=GONE)
    return found


def ready(group: Group, ids: Sequence[str]) -> frozenset[str]:
    """Those whose agent reports itself ready. No listing tells that of several VMs."""
    documents = answered(ids, lambda one: document_of(group, *names.split(one)))
    return frozenset(one for one, document in documents.items() if document is not None and _is_ready(document))


def _is_ready(document: Document) -> bool:
    return vms.agent_is_ready(part(document, "properties").get("instanceView") or {})


def terminate(group: Group, ids: Sequence[str]) -> BatchResult:
    """Asks for the end of those that exist: deletion frees the VM and, by their delete options, what was made with it."""
    shown: frozenset[str] = frozenset()
    if len(ids) > _MOST_DIRECT:
        with suppress(ProviderError):
            shown = frozenset(_shown(group))
    return each(ids, lambda one: _terminate(group, one, shown))


def _shown(group: Group) -> Iterator[str]:
    every = (vm for page in listings.pages(group, listings.VMS) for vm in page)
    return (names.join(part(vm, "name"), part(vm, "properties", "vmId")) for vm in every)


def _terminate(group: Group, one: str, shown: frozenset[str]) -> bool:
    """Only the VM that is meant: a DELETE goes by the name alone. Answers whether Azure knew it."""
    try:
        name, vm_id = names.split(one)
    except NotFound:
        return False
    theirs = replace(group, name=names.group_of(one) or group.name)
    if one not in shown and document_of(theirs, name, vm_id) is None:
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
    """Asks for it and returns. Refused with NotFound, or with InvalidSpec: a VM that cannot restart."""
    return each(ids, lambda one: _restart(group, one))


def _restart(group: Group, one: str) -> bool:
    name = part(require(group, one), "name")
    with translated():
        group.compute.virtual_machines.begin_restart(group.name, name, polling=False)
    return True
