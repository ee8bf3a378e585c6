"""Looking: by token, by id, by listing, and whether a VM is ready."""

from app.domain.leases import VmState
from app.local.waiting import wait_until
from tests.workers.providers.contract.backend import PATIENCE, Backend, Power
from tests.workers.providers.contract.cases import another, await_state, case, launch, listed, look, wish
from tests.workers.providers.samples import INSTALLATION, owner


@case(Power.TOKENS)
def a_token_finds_its_vm(backend: Backend) -> None:
    vm = launch(backend)
    launch(backend, owner(n=2))
    found = backend.provider.find(backend.region, wish(backend).token, owner())
    assert found is not None
    assert found.id == vm.id


@case(Power.TOKENS)
def a_token_never_used_finds_nothing(backend: Backend) -> None:
    launch(backend)
    assert backend.provider.find(backend.region, "f" * 64, owner()) is None


@case(Power.TOKENS)
def a_token_finds_nothing_of_another_owner(backend: Backend) -> None:
    launch(backend)
    token = wish(backend).token
    for other in (owner(lease="lease_b"), owner(n=2), owner(installation="another")):
        assert backend.provider.find(backend.region, token, other) is None


@case(Power.TOKENS, Power.MEMORY)
def a_token_still_finds_a_vm_that_has_ended(backend: Backend) -> None:
    vm = launch(backend)
    backend.provider.terminate(backend.region, [vm.id])
    await_state(backend, vm.id, VmState.GONE)
    found = backend.provider.find(backend.region, wish(backend).token, owner())
    assert found is not None
    assert found.state is VmState.GONE


@case()
def get_tells_known_from_unknown(backend: Backend) -> None:
    vm = launch(backend)
    unknown = another(vm.id)
    found = backend.provider.get(backend.region, [vm.id, unknown])
    assert set(found) == {vm.id, unknown}
    assert found[unknown] is None
    assert look(backend, vm.id).tags == vm.tags


@case()
def get_of_nothing_is_empty(backend: Backend) -> None:
    launch(backend)
    assert backend.provider.get(backend.region, []) == {}


@case()
def a_listing_shows_all_of_this_installation_and_nothing_else(backend: Backend) -> None:
    ours = {launch(backend, owner(n=n)).id for n in (1, 2, 3)}
    launch(backend, owner(installation="another-installation"))
    backend.plant(1, {"Name": "somebody's"})
    assert {vm.id for vm in listed(backend)} == ours
    assert listed(backend, "no-such-installation") == []


@case()
def a_listing_of_several_regions_shows_each_vm_once_with_its_own(backend: Backend) -> None:
    backend.plant(2, owner().as_tags())
    backend.plant_elsewhere(owner().as_tags())
    here, there = backend.region, backend.other_region
    for asked, expected in (([here, there], [here, here, there]), ([here], [here, here]), ([there], [there])):
        pages = list(backend.provider.list(frozenset(asked), INSTALLATION))
        vms = [vm for page in pages for vm in page.vms]
        assert sorted(vm.region for vm in vms) == sorted(expected)
        assert len({vm.id for vm in vms}) == len(expected)
        assert not any(page.failed or page.unreachable for page in pages)
        assert backend.provider.interruptions(frozenset(asked), INSTALLATION) in ([], ())


@case()
def a_listing_of_everywhere_shows_regions_that_nobody_configured(backend: Backend) -> None:
    backend.plant(1, owner().as_tags())
    backend.plant_elsewhere(owner().as_tags())
    backend.plant(1, owner(installation="another-installation").as_tags())
    pages = list(backend.provider.list_everywhere(INSTALLATION))
    assert sorted(vm.region for page in pages for vm in page.vms) == sorted([backend.region, backend.other_region])
    assert not any(page.failed or page.unreachable for page in pages)
    for vm in [vm for page in pages for vm in page.vms]:
        assert vm.tags == owner().as_tags() or vm.tags.items() >= owner().as_tags().items()
        assert backend.provider.terminate(vm.region, [vm.id]).done == {vm.id}


@case(Power.MANY)
def a_listing_of_several_pages_shows_each_vm_once(backend: Backend) -> None:
    planted = 2 * backend.page + 1
    backend.plant(planted, owner().as_tags())
    backend.plant(50, owner(installation="another-installation").as_tags())
    pages = list(backend.provider.list(frozenset({backend.region}), INSTALLATION))
    assert len(pages) >= 3
    ids = [vm.id for page in pages for vm in page.vms]
    assert len(ids) == len(set(ids)) == planted


@case(Power.MANY)
def get_of_many_asks_in_portions(backend: Backend) -> None:
    backend.plant(2 * backend.portion + 1, owner().as_tags())
    ids = [vm.id for vm in listed(backend)]
    found = backend.provider.get(backend.region, ids)
    assert set(found) == set(ids)
    assert None not in found.values()


@case()
def running_shows_addresses(backend: Backend) -> None:
    vm = await_state(backend, launch(backend, public_ip=True).id, VmState.RUNNING)
    assert vm.public_ip
    assert vm.private_ip


@case(Power.BOOT)
def ready_comes_after_running_and_only_for_those_that_are(backend: Backend) -> None:
    vm = launch(backend)
    unknown = another(vm.id)
    assert backend.provider.ready(backend.region, [vm.id]) == frozenset()
    assert wait_until(lambda: vm.id in backend.provider.ready(backend.region, [vm.id, unknown]), timeout=PATIENCE)
    assert backend.provider.ready(backend.region, [vm.id, unknown]) == {vm.id}
    assert look(backend, vm.id).state is VmState.RUNNING


@case()
def nobody_is_ready_when_nobody_was_asked_about(backend: Backend) -> None:
    launch(backend)
    assert backend.provider.ready(backend.region, []) == frozenset()
