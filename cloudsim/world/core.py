"""The world itself: launch, end, reclaim, tag, and the passing of time."""

from __future__ import annotations

import heapq
import random
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from decimal import Decimal

from cloudsim.settings import Settings
from cloudsim.world import new_vm
from cloudsim.world.capacity import Capacity, Cell
from cloudsim.world.catalog import Catalog, MachineType
from cloudsim.world.create_requests import Order, PlantOrder
from cloudsim.world.entities import RECLAIMED, Market, Resource, ResourceKind, Vm, VmState
from cloudsim.world.errors import (
    CapacityExhausted,
    ReservationFull,
    ReservationUnusable,
    TokenMismatch,
    TokenTerminated,
    WorldError,
)
from cloudsim.world.faults import BOOT, FaultBook, FaultMode
from cloudsim.world.gpus import GpuCondition, GpuConditions, rebooted
from cloudsim.world.lifecycle import Step, due
from cloudsim.world.limits import Buckets
from cloudsim.world.quota import QuotaKey, Quotas
from cloudsim.world.reservations import Reservation
from cloudsim.world.restrictions import Restrictions
from cloudsim.world.vm_index import VmIndex

Clock = Callable[[], float]
"""Seconds since the epoch."""

DEFAULT_BOOT_FAILURE = "Server.InternalError"
CONSOLE_LINES = 20
"""Lines of programs that a VM's serial console keeps."""
QUEUE_ENDED = "queue-ended"
"""Code of a VM that its cloud's queue gave no capacity in time."""


_RECLAIMED = {Market.SPOT: RECLAIMED, Market.ON_DEMAND: "reservation-ended"}
"""Why its cloud ends a VM."""


class World:
    """All simulated clouds of one process. Not thread-safe: one event loop owns it.

    `clock` is read by `advance`, which every front calls before it looks. `on_change` gets what a store
    has to write: kind ("vm", "resource" or "facts") and id.
    """

    def __init__(self, catalogs: Iterable[Catalog], settings: Settings, *, clock: Clock, rng: random.Random) -> None:
        self.catalogs = {catalog.provider: catalog for catalog in catalogs}
        self.initial_settings = settings
        self.settings = settings
        self._clock = clock
        self.ahead = 0.0
        self.rng = rng
        self.on_change: Callable[[str, str], None] = lambda _kind, _id: None
        self._clear()

    def _clear(self) -> None:
        self.now = self.clock()
        self.vms: dict[str, Vm] = {}
        self.resources: dict[str, Resource] = {}
        self.disks: list[Resource] = []
        """Disks that were made without a VM, deleted ones too. Their `spec` has their history."""
        self._going: list[Resource] = []
        self.capacity = Capacity()
        self.quotas = Quotas()
        self.buckets = Buckets()
        self.faults = FaultBook(self.rng)
        self.restrictions = Restrictions()
        self.gpus = GpuConditions()
        self.calls: Counter[tuple[str, str, str]] = Counter()
        self.reservations: dict[str, Reservation] = {}
        self.spot_factors: dict[tuple[str, str], Decimal] = {}
        self.offered = {name: set(catalog.offered) for name, catalog in self.catalogs.items()}
        self._shelves: dict[tuple[str, str, str], VmIndex] = {}
        self._tokens: dict[str, str] = {}
        self._agenda: list[tuple[float, int, str]] = []
        self._last_seq = 0

    def reset(self) -> None:
        """Start over: nothing exists, settings and offers as at the start."""
        gone = [*(("vm", vm_id) for vm_id in self.vms), *(("resource", thing) for thing in self.resources)]
        self.settings = self.initial_settings
        self._clear()
        self.touch_facts()
        for kind, thing_id in gone:
            self.on_change(kind, thing_id)

    # -- time ---------------------------------------------------------------------------------------------

    def clock(self) -> float:
        """The time of the clouds: that of the machine, and `ahead` seconds by which somebody moved it forward."""
        return self._clock() + self.ahead

    def advance(self) -> float:
        """Let everything happen that is due; returns the time."""
        self.now = max(self.now, self.clock())
        while self._agenda and self._agenda[0][0] <= self.now:
            _, _, vm_id = heapq.heappop(self._agenda)
            vm = self.vms.get(vm_id)
            if vm is not None:
                self._catch_up(vm)
        for disk in [disk for disk in self._going if disk.spec["gone_from"] <= self.now]:
            self._going.remove(disk)
            self.remove_resource(disk.id)
        return self.now

    def _catch_up(self, vm: Vm) -> None:
        while (next_change := due(vm, self.settings, listed=self._is_listed(vm))) is not None:
            at, step = next_change
            if at > self.now:
                heapq.heappush(self._agenda, (at, vm.seq, vm.id))
                return
            self._take_step(vm, step, at)
            if step is Step.FORGET:
                return

    def _take_step(self, vm: Vm, step: Step, at: float) -> None:
        match step:
            case Step.LEAVE_QUEUE:
                vm.queued_until = None
            case Step.RUN:
                vm.state = VmState.RUNNING
            case Step.FAIL_BOOT:
                self._fail_boot(vm, at)
            case Step.RECLAIM:
                self._begin_end(vm, _RECLAIMED[vm.market], at)
            case _:
                self._wind_up(vm, step, at)
        self.touch(vm)

    def _wind_up(self, vm: Vm, step: Step, at: float) -> None:
        """The steps of a VM that ends."""
        match step:
            case Step.TERMINATE:
                self._terminate(vm, at)
            case Step.CLEAN:
                self._clean(vm)
            case Step.UNLIST:
                self.shelf(vm.provider, vm.account, vm.region).remove(vm)
            case Step.FORGET:
                self._forget(vm)

    def _fail_boot(self, vm: Vm, at: float) -> None:
        if vm.failure_stays:
            vm.state = VmState.FAILED
        else:
            self._begin_end(vm, vm.boot_failure or DEFAULT_BOOT_FAILURE, at)
            self._terminate(vm, at)

    # -- looking ------------------------------------------------------------------------------------------

    def shelf(self, provider: str, account: str, region: str) -> VmIndex:
        """What one account has in one region."""
        return self._shelves.setdefault((provider, account, region), VmIndex())

    def visible(self, provider: str, account: str, region: str, vm_id: str) -> Vm | None:
        """The VM as its cloud's API shows it now: None when too fresh, too long dead or another account's."""
        vm = self.vms.get(vm_id)
        if vm is None or (vm.provider, vm.account, vm.region) != (provider, account, region):
            return None
        return vm if self._is_listed(vm) and vm.visible_at <= self.now else None

    def by_token(self, token_key: str) -> Vm | None:
        """The VM that a launch token made."""
        vm_id = self._tokens.get(token_key)
        return self.vms.get(vm_id) if vm_id else None

    def resources_of(self, provider: str, account: str, region: str, kind: ResourceKind) -> Iterator[Resource]:
        """Resources of one kind that one account has in one region, oldest first."""
        where = (provider, account, region, kind)
        return (r for r in self.resources.values() if (r.provider, r.account, r.region, r.kind) == where)

    def spot_factor(self, provider: str, region: str) -> Decimal:
        """What a list price of spot VMs is multiplied by in a region."""
        return self.spot_factors.get((provider, region), Decimal(1))

    def machine(self, provider: str, name: str) -> MachineType:
        """The type's facts. Raises WorldError."""
        machine = self.catalogs[provider].machines.get(name)
        if machine is None:
            raise WorldError(f"{provider} has no instance type {name}")
        return machine

    def quota_key(self, vm: Vm | Order) -> QuotaKey:
        """The quota that a VM counts against."""
        code = self.machine(vm.provider, vm.instance_type).quota_codes[vm.market]
        return (vm.provider, vm.account, vm.region, code)

    def hex(self, digits: int) -> str:
        """Random hexadecimal digits for an id."""
        return f"{self.rng.getrandbits(4 * digits):0{digits}x}"

    # -- changing -----------------------------------------------------------------------------------------

    def replay(self, order: Order) -> Vm | None:
        """The VM that an earlier launch with the same token made; None for a new token.

        Raises TokenMismatch, TokenTerminated.
        """
        vm = self.by_token(order.token_key) if order.token_key else None
        if vm is None:
            return None
        if vm.params_hash != order.params_hash:
            raise TokenMismatch(order.token or "")
        if not vm.alive and self.settings.relaunch_of_terminated == "error":
            raise TokenTerminated(order.token or "")
        return vm

    def launch(self, order: Order, zone: str | None = None) -> Vm:
        """Start a VM, or answer the one that the same token started. `zone`: of the other VMs of the same launch.

        Raises QuotaExceeded, CapacityExhausted, ReservationUnusable, ReservationFull, TokenMismatch, TokenTerminated.
        """
        replayed = self.replay(order)
        if replayed is not None:
            return replayed
        machine = self.machine(order.provider, order.instance_type)
        self.quotas.check(self.quota_key(order), machine.counted, self.settings.default_quota_vcpus)
        if self._room_in_group(order) == 0:
            raise CapacityExhausted(order.instance_type, order.zones)
        if order.reservation is None:
            vm = self._new_vm(order, zone or self._find_zone(order), self.now)
            vm.pool_epoch = self.capacity.take(self._cell(vm))
        else:
            vm = self._new_vm(order, order.zones[0], self.now)
            vm.reclaim_at = self._reserved(order).vms_end_at
        if vm.pool_epoch is not None:
            self.touch_facts()
        self._meet_boot_fault(vm)
        self._queue(vm, order.longest_queue)
        self._admit(vm, order)
        return vm

    def in_placement_group(self, key: str) -> Iterator[Vm]:
        """The VMs of a placement group that have not ended."""
        return (vm for vm in self.vms.values() if vm.alive and vm.placement_group == key)

    def _room_in_group(self, order: Order) -> int | None:
        """How many more machines are close to the other VMs of the order's placement group; None: no limit."""
        most = self.settings.placement_group_capacity
        if most is None or order.placement_group is None:
            return None
        return max(0, most - sum(1 for _ in self.in_placement_group(order.placement_group)))

    def room(self, order: Order, most: int) -> int:
        """How many VMs like this can start in the order's first zone with capacity, at most `most`. 0 for none."""
        close = self._room_in_group(order)
        most = most if close is None else min(most, close)
        if order.reservation is not None:
            return min(most, self.free_machines(self._reserved(order)))
        return self.capacity.room(self._cell_of(order, self._find_zone(order)), most)

    def free_machines(self, reservation: Reservation) -> int:
        """How many more VMs can run in a reservation."""
        used = sum(vm.alive and vm.reservation == reservation.key for vm in self.vms.values())
        return max(0, reservation.total - used)

    def _reserved(self, order: Order) -> Reservation:
        """The reservation of an order, with a free machine."""
        key = order.reservation or ""
        reservation = self.reservations.get(key)
        if reservation is None:
            raise ReservationUnusable(key, "missing")
        if (reservation.zone, reservation.instance_type) != (order.zones[0], order.instance_type):
            raise ReservationUnusable(key, "mismatch")
        if not reservation.is_active(self.now):
            raise ReservationUnusable(key, "inactive")
        if self.free_machines(reservation) == 0:
            raise ReservationFull(key)
        return reservation

    def _queue(self, vm: Vm, longest: float | None) -> None:
        """Lets the VM wait in its cloud's queue. One that waits for too long is refused."""
        if longest is None:
            return
        vm.queued_until = vm.launched_at + min(longest, self.settings.queue_seconds)
        if self.settings.queue_seconds > longest:
            vm.boot_failure, vm.running_at = QUEUE_ENDED, vm.queued_until
            return
        vm.running_at += self.settings.queue_seconds
        if vm.ready_at is not None:
            vm.ready_at += self.settings.queue_seconds

    def refuse(self, order: Order, code: str) -> Vm:
        """A VM that is accepted and then not made, for the reason `code`: it never runs."""
        vm = self._new_vm(order, order.zones[0], self.now)
        vm.boot_failure, vm.running_at = code, self.now + self.settings.refusal_seconds
        self._admit(vm, order)
        return vm

    def forget_token(self, token_key: str) -> None:
        """A launch with this token makes a new VM again (clouds whose names are free once a VM has gone)."""
        self._tokens.pop(token_key, None)

    def plant(self, plant: PlantOrder) -> Vm:
        """Put a running VM there that no API call made."""
        vm = self._new_vm(plant.order, plant.order.zones[0], plant.launched_at)
        vm.state = VmState.RUNNING
        vm.visible_at = vm.running_at = vm.ready_at = plant.launched_at
        self._admit(vm, plant.order)
        return vm

    def end(self, vm: Vm, code: str = "user") -> None:
        """Begin to terminate; a VM that is ending already stays as it is."""
        if vm.state in (VmState.PENDING, VmState.RUNNING, VmState.FAILED, VmState.DEALLOCATED):
            self._begin_end(vm, code, self.now)
            self.touch(vm)
            self._catch_up(vm)
        elif vm.is_deallocating:
            vm.end_code = code
            self.touch(vm)

    def interrupt(self, vm: Vm, notice_seconds: float, cause: str) -> None:
        """The cloud interrupts a spot VM after a notice. Raises WorldError when it cannot."""
        if vm.market is not Market.SPOT:
            raise WorldError(f"{vm.id} is not a spot VM: only those are reclaimed")
        if vm.state not in (VmState.PENDING, VmState.RUNNING):
            raise WorldError(f"{vm.id} is {vm.state}: nothing left to reclaim")
        vm.notice_at, vm.reclaim_at, vm.reclaim_cause = self.now, self.now + notice_seconds, cause
        self.touch(vm)
        self._catch_up(vm)

    def reboot(self, vm: Vm) -> None:
        """The VM boots anew, which takes no time here."""
        vm.booted_at = self.now
        vm.gpus = rebooted(vm.gpus)
        self.touch(vm)

    def set_gpus(self, vm: Vm, condition: GpuCondition) -> None:
        """The GPUs of a VM are like this from now on."""
        vm.gpus = condition
        self.touch(vm)

    def print_line(self, vm: Vm, line: str) -> None:
        """A program in the VM writes a line to the serial console, which keeps the last ones."""
        vm.console = (*vm.console, line)[-CONSOLE_LINES:]
        self.touch(vm)

    def retag(self, vm: Vm, tags: dict[str, str | None]) -> None:
        """Set tags, None takes one away."""
        shelf = self.shelf(vm.provider, vm.account, vm.region)
        for key, value in tags.items():
            shelf.retag(vm, key, value)
        self.touch(vm)

    def protect(self, thing_id: str, *, protected: bool) -> None:
        """Fronts refuse to delete a protected VM or resource, each in its cloud's words. It may still end by itself."""
        vm = self.vms.get(thing_id)
        if vm is not None:
            vm.spec["protected"] = protected
            self.touch(vm)
        else:
            self.resources[thing_id].spec["protected"] = protected
            self.touch_resource(thing_id)

    def attach(self, volume: Resource, vm: Vm, spec: Mapping[str, object]) -> None:
        """The VM has the disk from now on; the VM's end leaves it. `spec`: what the VM's front says about the device."""
        volume.vm_id, volume.delete_with_vm = vm.id, False
        volume.spec |= {**spec, "vms": [*volume.spec.get("vms", ()), (vm.id, self.now)]}
        vm.resources.append(volume.id)
        self.touch(vm)
        self.touch_resource(volume.id)

    def is_made(self, volume: Resource) -> bool:
        """Whether a disk is ready: its creation is over, and nobody deletes it."""
        if "gone_from" in volume.spec:
            return False
        return self.now >= volume.created_at + self.settings.volume_seconds or volume.vm_id is not None

    def add_resource(self, resource: Resource) -> None:
        """From now on it exists."""
        self.resources[resource.id] = resource
        if resource.kind is ResourceKind.VOLUME and resource.vm_id is None:
            oldest = self.now - self.settings.history_seconds
            self.disks = [disk for disk in self.disks if disk.spec.get("deleted_at", self.now) >= oldest]
            self.disks.append(resource)
        self.touch_resource(resource.id)

    def delete_disk(self, disk: Resource) -> None:
        """A disk that no VM has is gone after a while, at once where that takes no time. Silent when it is on its way."""
        if not self.settings.volume_seconds:
            self.remove_resource(disk.id)
        elif "gone_from" not in disk.spec:
            disk.spec["gone_from"] = self.now + self.settings.volume_seconds
            self._going.append(disk)
            self.touch_resource(disk.id)

    def remove_resource(self, resource_id: str, *, with_vm: str | None = None) -> None:
        """It is gone; silent when it was. `with_vm`: the VM whose end took it along."""
        resource = self.resources.pop(resource_id, None)
        if resource is not None:
            resource.spec |= {"deleted_at": self.now, "deleted_with": with_vm}
        self.touch_resource(resource_id)

    def apply_settings(self, settings: Settings) -> None:
        """Go on under other settings; VMs on their way keep the boot times they started with."""
        self.settings = settings
        self._agenda.clear()
        self.touch_facts()
        for vm in list(self.vms.values()):
            self._catch_up(vm)

    def restore(self, vms: Iterable[Vm], resources: Iterable[Resource]) -> None:
        """Take over stored VMs and resources into an empty world."""
        oldest_first = sorted(resources, key=lambda stored: stored.created_at)
        self.resources = {resource.id: resource for resource in oldest_first}
        volumes = (resource for resource in oldest_first if resource.kind is ResourceKind.VOLUME)
        self.disks = [volume for volume in volumes if volume.vm_id is None or "vms" in volume.spec]
        self._going = [resource for resource in oldest_first if "gone_from" in resource.spec]
        for vm in sorted(vms, key=lambda stored: stored.seq):
            self._last_seq = vm.seq
            self._index(vm)
            self._catch_up(vm)

    def touch(self, vm: Vm) -> None:
        """Its picture in caches and store is old."""
        vm.revision += 1
        self.on_change("vm", vm.id)

    def touch_resource(self, resource_id: str) -> None:
        """The store has to write it."""
        self.on_change("resource", resource_id)

    def touch_facts(self) -> None:
        """The store has to write settings, capacity, quotas and the like."""
        self.on_change("facts", "")

    # -- inside -------------------------------------------------------------------------------------------

    def _is_listed(self, vm: Vm) -> bool:
        return vm.seq in self.shelf(vm.provider, vm.account, vm.region).vms

    def _cell(self, vm: Vm) -> Cell:
        return self._cell_of(vm, vm.zone)

    @staticmethod
    def _cell_of(of: Vm | Order, zone: str) -> Cell:
        return Cell(of.provider, zone, of.instance_type, of.market)

    def _find_zone(self, order: Order) -> str:
        for zone in order.zones:
            if self.capacity.has(self._cell_of(order, zone)):
                return zone
        raise CapacityExhausted(order.instance_type, order.zones)

    def _new_vm(self, order: Order, zone: str, launched_at: float) -> Vm:
        self._last_seq += 1
        vm = new_vm.vm(order, zone, seq=self._last_seq, launched_at=launched_at, settings=self.settings)
        vm.gpus = self.gpus.of_launch(order.provider, order.instance_type)
        return vm

    def _meet_boot_fault(self, vm: Vm) -> None:
        fault = self.faults.take(vm.provider, BOOT, vm.region)
        if fault is None:
            return
        if fault.mode is FaultMode.ERROR:
            vm.boot_failure = fault.code or DEFAULT_BOOT_FAILURE
        elif fault.mode is FaultMode.HANG:
            vm.ready_at = None
        elif fault.mode is FaultMode.DELAY and vm.ready_at is not None:
            vm.ready_at += fault.delay_seconds or 0.0

    def _admit(self, vm: Vm, order: Order) -> None:
        for resource in new_vm.resources(order, vm):
            vm.resources.append(resource.id)
            self.add_resource(resource)
        self._index(vm)
        self.touch(vm)
        self._catch_up(vm)

    def _index(self, vm: Vm) -> None:
        self.vms[vm.id] = vm
        self.shelf(vm.provider, vm.account, vm.region).add(vm)
        if vm.token_key:
            self._tokens[vm.token_key] = vm.id
        if vm.alive:
            self.quotas.used[self.quota_key(vm)] += self.machine(vm.provider, vm.instance_type).counted

    def _begin_end(self, vm: Vm, code: str, at: float) -> None:
        vm.state = VmState.SHUTTING_DOWN
        vm.queued_until = None
        vm.ending_at = at
        vm.end_code = code

    def _terminate(self, vm: Vm, at: float) -> None:
        if vm.is_deallocating:
            self._deallocate(vm)
            return
        vm.state = VmState.TERMINATED
        vm.ended_at = at
        self.quotas.used[self.quota_key(vm)] -= self.machine(vm.provider, vm.instance_type).counted
        self.capacity.give_back(self._cell(vm), vm.pool_epoch)
        if vm.pool_epoch is not None:
            self.touch_facts()

    def _deallocate(self, vm: Vm) -> None:
        """Its machine is free again. It still counts against the quota, as everything that exists."""
        vm.state = VmState.DEALLOCATED
        vm.reclaim_at = None
        self.capacity.give_back(self._cell(vm), vm.pool_epoch)
        vm.pool_epoch = None
        self.touch_facts()

    def _clean(self, vm: Vm) -> None:
        vm.cleaned = True
        for resource_id in vm.resources:
            resource = self.resources.get(resource_id)
            if resource is None or resource.vm_id != vm.id:
                continue
            if resource.delete_with_vm:
                self.remove_resource(resource_id, with_vm=vm.id)
            else:
                resource.vm_id = None
                self.touch_resource(resource_id)

    def _forget(self, vm: Vm) -> None:
        del self.vms[vm.id]
        if vm.token_key and self._tokens.get(vm.token_key) == vm.id:
            del self._tokens[vm.token_key]
