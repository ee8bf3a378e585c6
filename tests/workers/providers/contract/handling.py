"""Reboots, consoles, deadlines, and what an account has to offer."""

from dataclasses import replace
from datetime import timedelta
from decimal import Decimal

import pytest

from app.domain import tags
from app.domain.leases import VmState
from app.domain.offerings import LISTED_MARKETS, Market
from app.domain.tags import OwnerTags
from tests.workers.providers.contract.backend import Backend, Power
from tests.workers.providers.contract.cases import another, await_gone, await_state, case, launch, look
from tests.workers.providers.samples import owner
from workers.providers import errors


@case(Power.REBOOTS)
def a_running_vm_can_be_rebooted_and_stays_the_same(backend: Backend) -> None:
    vm = await_state(backend, launch(backend).id, VmState.RUNNING)
    before = backend.reboots()
    backend.provider.reboot(backend.region, [vm.id])
    assert backend.reboots() == before + 1
    assert look(backend, vm.id).state is VmState.RUNNING


@case()
def what_is_not_there_is_not_rebooted(backend: Backend) -> None:
    vm = launch(backend)
    unknown = another(vm.id)
    with pytest.raises(errors.NotFound):
        backend.provider.reboot(backend.region, [unknown]).require(unknown)


@case(Power.BOOT)
def what_has_ended_is_not_rebooted(backend: Backend) -> None:
    vm = launch(backend)
    backend.provider.terminate(backend.region, [vm.id])
    await_gone(backend, vm.id)
    with pytest.raises((errors.InvalidSpec, errors.NotFound)):
        backend.provider.reboot(backend.region, [vm.id]).require(vm.id)


@case(Power.CONSOLE)
def the_console_is_clean_text_and_empty_before_there_is_any(backend: Backend) -> None:
    vm = launch(backend)
    at_first = backend.provider.console_output(backend.region, vm.id)
    if look(backend, vm.id).state is not VmState.RUNNING:  # on a busy machine it may be
        assert at_first == ""
    await_state(backend, vm.id, VmState.RUNNING)
    text = backend.provider.console_output(backend.region, vm.id)
    assert "Linux version" in text
    assert all(character.isprintable() or character in "\n\t" for character in text)


@case()
def a_renewed_deadline_stands_on_the_vm_and_what_belongs_to_it(backend: Backend) -> None:
    vm, other = launch(backend, owner(n=1)), launch(backend, owner(n=2))
    later = owner().deadline_at + timedelta(hours=5)
    backend.provider.set_deadline(backend.region, [vm.id], later)
    assert tags.deadline(look(backend, vm.id).tags) == later
    assert {tags.deadline(found) for found in backend.belongings(vm.id).values()} == {later}
    renewed = replace(owner(), deadline_at=later)
    assert OwnerTags.parse(look(backend, vm.id).tags) == renewed
    assert tags.deadline(look(backend, other.id).tags) == owner().deadline_at


@case()
def a_deadline_that_could_not_be_written_is_told(backend: Backend) -> None:
    vm = launch(backend)
    unknown = another(vm.id)
    later = owner().deadline_at + timedelta(hours=5)
    written = backend.provider.set_deadline(backend.region, [unknown, vm.id], later)
    assert written.done == {vm.id}
    with pytest.raises(errors.NotFound, match=unknown):
        written.require(unknown)
    assert tags.deadline(look(backend, vm.id).tags) == later


@case()
def the_account_knows_who_it_is(backend: Backend) -> None:
    assert backend.provider.identity()
    assert backend.provider.identity() == backend.provider.identity()


@case(Power.OFFERS)
def offers_name_zone_market_and_price(backend: Backend) -> None:
    offers = backend.provider.offered(backend.region)
    keys = {(one.zone, one.type.name, one.market) for one in offers}
    assert len(keys) == len(offers)
    assert {one.region for one in offers} == {backend.region}
    for market in LISTED_MARKETS:
        (one,) = (o for o in offers if (o.zone, o.type.name, o.market) == (backend.zone, backend.instance_type, market))
        assert isinstance(one.price_per_hour, Decimal)
        assert one.price_per_hour > 0
        assert one.price_source
        assert one.price_as_of is not None


@case(Power.OFFERS)
def spot_is_not_dearer_than_on_demand(backend: Backend) -> None:
    offers = backend.provider.offered(backend.region)
    prices = {(one.zone, one.type.name, one.market): one.price_per_hour for one in offers}
    for (zone, name, market), price in prices.items():
        fixed = prices.get((zone, name, Market.ON_DEMAND))
        if market is Market.SPOT and price is not None and fixed is not None:
            assert price <= fixed


@case(Power.QUOTAS)
def quotas_are_told_with_their_unit(backend: Backend) -> None:
    quotas = backend.provider.service_quotas(backend.region)
    assert quotas
    assert all(one.region == backend.region and one.unit and one.limit >= 0 for one in quotas)


@case(Power.IMAGE)
def the_image_is_driver_ready_and_can_be_launched(backend: Backend) -> None:
    image = backend.provider.image(backend.region)
    assert image.name
    assert launch(backend, image=image).id in backend.alive()


@case(Power.IMAGE_CHECK)
def an_image_that_does_not_exist_is_a_bad_request(backend: Backend) -> None:
    with pytest.raises(errors.InvalidSpec):
        launch(backend, image=replace(backend.image(), id=another(backend.image().id)))
    assert not backend.alive()


@case()
def the_limits_name_launch_terminate_write_and_read(backend: Backend) -> None:
    assert set(backend.provider.limits.rates) == {"launch", "terminate", "write", "read"}
