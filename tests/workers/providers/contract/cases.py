"""The cases of the contract, and what they have in common."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pytest

from app.domain.leases import VmState
from app.domain.tags import OwnerTags
from app.local.waiting import wait_until
from tests.workers.providers.contract.backend import PATIENCE, Backend, Power
from tests.workers.providers.samples import INSTALLATION, spec
from workers.providers import errors
from workers.providers.types import LaunchSpec, Leftover, Vm

Case = Callable[[Backend], None]


NETWORKS = ("203.0.113.0/24", "198.51.100.7/32", "2001:db8::/32")


@dataclass(frozen=True)
class _Entry:
    run: Case
    needs: frozenset[Power]


_CASES: list[_Entry] = []


def case(*needs: Power) -> Callable[[Case], Case]:
    def register(run: Case) -> Case:
        _CASES.append(_Entry(run, frozenset(needs)))
        return run

    return register


def cases(lacks: Mapping[Power, str]) -> list[Any]:
    """Parameters for pytest: the cases that need nothing of what the backend lacks."""
    return [pytest.param(entry.run, id=entry.run.__name__) for entry in _CASES if not entry.needs & set(lacks)]


def wish(backend: Backend, of: OwnerTags | None = None, **changes: Any) -> LaunchSpec:
    """A specification that this backend can launch."""
    place = {"region": backend.region, "zone": backend.zone, "instance_type": backend.instance_type}
    return spec(of, **(place | {"image": backend.image()} | changes))


def launch(backend: Backend, of: OwnerTags | None = None, **changes: Any) -> Vm:
    return backend.provider.launch(backend.region, as_stored(backend.provider.plan(wish(backend, of, **changes))))


def as_stored(params: Any) -> Any:
    """With the order of members that PostgreSQL gives to jsonb: by length, then by text."""
    if isinstance(params, list):
        return [as_stored(one) for one in params]
    if isinstance(params, dict):
        return {name: as_stored(params[name]) for name in sorted(params, key=lambda name: (len(name), name))}
    return params


def look(backend: Backend, vm_id: str) -> Vm:
    vm = backend.provider.get(backend.region, [vm_id])[vm_id]
    assert vm is not None
    return vm


def another(vm_id: str) -> str:
    """An id of the same form that no VM has."""
    return vm_id[:-4] + ("1111" if vm_id[-4:] != "1111" else "2222")


def await_gone(backend: Backend, vm_id: str) -> Vm | None:
    """What is still shown of a VM that has ended: None where a cloud forgets it at once."""

    def gone() -> bool:
        seen = backend.provider.get(backend.region, [vm_id])[vm_id]
        return seen is None or seen.state is VmState.GONE

    assert wait_until(gone, timeout=PATIENCE)
    return backend.provider.get(backend.region, [vm_id])[vm_id]


def refused(backend: Backend, of: OwnerTags | None = None, **changes: Any) -> type[errors.Refused]:
    """What the refusal of a launch means, also where it comes after the VM was accepted; one that stays is ended then."""
    try:
        vm = launch(backend, of, **changes)
    except errors.Refused as error:
        return type(error)
    assert wait_until(lambda: look(backend, vm.id).refusal is not None, timeout=PATIENCE)
    kind = look(backend, vm.id).refusal
    assert kind is not None
    backend.provider.terminate(backend.region, [vm.id])
    await_gone(backend, vm.id)
    return kind


def await_state(backend: Backend, vm_id: str, state: VmState) -> Vm:
    assert wait_until(lambda: look(backend, vm_id).state is state, timeout=PATIENCE)
    return look(backend, vm_id)


def listed(backend: Backend, installation: str = INSTALLATION) -> list[Vm]:
    return [vm for page in backend.provider.list(frozenset({backend.region}), installation) for vm in page.vms]


def leftovers(backend: Backend, lease_ids: Sequence[str] | None = None) -> list[Leftover]:
    return list(backend.provider.leftovers(backend.region, INSTALLATION, lease_ids).resources)


def left_alone(backend: Backend, lease_ids: Sequence[str] | None = None) -> list[Leftover]:
    return [one for one in leftovers(backend, lease_ids) if not one.in_use]
