"""Carries a plan out on a running stack, while leases are asked for."""

import math
import random
import signal
import threading
import traceback
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager, suppress
from datetime import timedelta
from typing import Any

import httpx
import psutil
import redis

from app.domain.tags import TENANT
from app.local.programs import INVENTORY, WORKER
from app.local.waiting import wait_until
from bench.three_clouds import CLOUDS, Installation, on_the_way
from tests.chaos.calendar import Calendar
from tests.chaos.course import Course
from tests.chaos.databases import Backup, Standby
from tests.chaos.duty import Duty
from tests.chaos.group_acts import GroupActs
from tests.chaos.group_truth import GroupTruth
from tests.chaos.hostile import Hostile
from tests.chaos.judgement import Judge
from tests.chaos.losses import Losses
from tests.chaos.money import TERM_SECONDS, Purse
from tests.chaos.orders import Order, orders
from tests.chaos.plan import ASKING_SHARE, FAULTS, FIRST_MIDNIGHT_SHARE, Event, Happening, Wanted, events
from tests.chaos.timeline import Line, Timeline
from tests.chaos.volume_checks import VolumeChecks
from tests.chaos.volume_thief import VolumeThief
from tests.chaos.volume_users import VolumeUsers
from tests.e2e.cloud import Json
from tests.e2e.people import ONE_A10G, Tenant
from tests.e2e.stack import PATIENCE, Stack

_ASKING = 8
_USERS = 4
"""Who have one volume at a time, beside the planned leases."""
_MOST_ON_THE_WAY = 60
"""Leases; who asks for more waits. Otherwise a slow machine would be measured by the queue that it cannot keep up with."""
_AMPLE, _NONE = 1_000_000, 0
_PRICE_FACTORS = (0.5, 1.6)
_TIGHT_SHARE = (0.2, 1.1)
"""Of the spend at the moment: a limit below it ends nothing, one just above it lets a few leases in."""
_DEADLOCK_LINES = 40
"""Of the log: who waits for whom, with the statements of both."""
_EAGER_SECONDS = 5.0
_HOLD_SECONDS = 30.0
_LOOK_SECONDS = 1.0
_LASTING = frozenset({Happening.REDIS, Happening.OUTAGE, Happening.SHORTAGE})


class Storm:
    """One run. `report` has the figures; what is wrong stands in its `checks`."""

    def __init__(self, stack: Stack, installation: Installation, wanted: Wanted) -> None:
        self._stack = stack
        self._installation = installation
        self._wanted = wanted
        self._course = Course()
        self._timers: list[threading.Timer] = []
        self._timeline = Timeline()
        self._room = threading.Event()
        self._standbys: list[Standby] = []
        self._backups: list[Backup] = []
        self._duty = Duty(installation.operator)
        self._places = installation.places
        until_midnight = timedelta(seconds=FIRST_MIDNIGHT_SHARE * wanted.seconds)
        self._calendar = Calendar(stack, installation.cloud, until_midnight)
        self._may_ask = threading.Event()
        self._group_acts = GroupActs(installation, self._course, self._later)

    def run(self) -> dict[str, Any]:
        """Until everything is quiet and judged."""
        operator = self._installation.operator
        self._calendar.prepare()
        self._stack.wait_until_ready()
        operator.wait_for_offerings(*CLOUDS)
        self._may_ask.set()
        with (
            operator.tenant("chaos", _AMPLE) as tenant,
            operator.tenant("hostile", _AMPLE) as other,
            self._duty.on_duty(),
        ):
            thief = VolumeThief(other, self._course.volumes, self._wanted.seed)
            self._thief = thief
            hostile = Hostile(self._installation, other, self._stack.credentials.api_url, self._wanted.seed, thief)
            operator.patch(f"/v1/tenants/{tenant.id}", {"max_ttl_seconds": TERM_SECONDS})
            cloud, database_url = self._installation.cloud, self._installation.database_url
            self._losses = Losses(tenant, cloud, database_url, self._calendar.now)
            self._losses_of_hostile = Losses(other, cloud, database_url, self._calendar.now)
            self._purse = Purse(tenant, self._wanted.seed, self._installation.database_url)
            self._groups = GroupTruth(self._installation, tenant, self._course, self._losses)
            self._purse.open()
            users = VolumeUsers(self._installation, tenant, self._course, self._wanted.seed, self._may_ask)
            volumes = VolumeChecks(
                self._installation, tenant, self._course, self._losses, self._losses_of_hostile, users
            )
            with hostile.acting(), users.acting(_USERS):
                asked = self._ask_while_it_happens(tenant)
                self._stack.wait_until_ready()
            self._loosen(tenant)
            judge = Judge(
                self._installation,
                tenant,
                self._course,
                self._losses,
                self._duty,
                self._purse,
                self._groups,
                volumes=volumes,
                hostile=self._losses_of_hostile,
            )
            found = judge.judge(asked, lambda: self._timeline.seconds)
            found["checks"]["what a hostile tenant changed for others"] = sorted(hostile.changed)
            found["checks"]["deadlocks in PostgreSQL"] = self._deadlocks()
        return {
            "seed": self._wanted.seed,
            "leases": self._wanted.leases,
            "hostile": hostile.sent + thief.answers,
            **found,
        }

    def _ask_while_it_happens(self, tenant: Tenant) -> set[str]:
        """The leases of all requests."""
        with _repeated(lambda: self._look(tenant)), ThreadPoolExecutor(_ASKING) as asking:
            requests = [
                asking.submit(self._ask, tenant, order) for order in orders(self._wanted.seed, self._wanted.leases)
            ]
            try:
                self._let_it_happen(tenant)
            except BaseException:
                traceback.print_exc()
                asking.shutdown(wait=False, cancel_futures=True)
                self._room.set()
                raise
            finally:
                self._timeline.reached(Line.HAPPENING, math.inf)
                for standby in self._standbys:
                    standby.close()
            return {lease_id for request in requests for lease_id in request.result()}

    def _deadlocks(self) -> list[str]:
        """PostgreSQL ends one of the transactions: its lease waits, or its caller has an error. Each with its statements."""
        lines = (self._stack.home.logs / "postgres.log").read_text(encoding="utf-8", errors="replace").splitlines()
        found = [number for number, line in enumerate(lines) if "deadlock detected" in line]
        return [" ".join(" ".join(lines[number : number + _DEADLOCK_LINES]).split()) for number in found]

    def _let_it_happen(self, tenant: Tenant) -> None:
        for event in events(self._wanted):
            self._timeline.wait_for(Line.HAPPENING, event.at)
            self._happen(event, tenant)
            self._timeline.reached(Line.HAPPENING, event.at)
        for timer in self._timers:
            timer.join()

    # --- leases -------------------------------------------------------------------------------------------

    def _ask(self, tenant: Tenant, order: Order) -> list[str]:
        """At its time, when there is room; again and again under one key while the API is away, or the quota tight."""
        pace = self._wanted.seconds * ASKING_SHARE / self._wanted.leases
        self._timeline.wait_for(Line.ASKING, order.number * pace)
        self._room.wait()
        wish = self._purse.wish(order.number, order.lease, capped=self._calendar.is_last_day())
        make = self._make_leases if order.group is None else self._make_group
        end = order.number + order.leases
        reached = math.inf if end == self._wanted.leases else end * pace
        try:
            lease_ids = make(tenant, order, wish)
        except BaseException:
            reached = math.inf  # nothing waits for an order that is lost; the run fails with its error
            raise
        finally:
            self._timeline.reached(Line.ASKING, reached)
        if "max_cost" in wish:
            self._course.capped |= set(lease_ids)
        return lease_ids

    def _make_leases(self, tenant: Tenant, order: Order, wish: Json) -> list[str]:
        """One lease, or several equal ones at once."""
        keys = [f"chaos-{self._wanted.seed}-{order.number + place}" for place in range(order.leases)]

        def create(body: Json, key: str) -> str:
            """The lease counts from its answer on: the others of a burst may be answered after a failover alone."""
            lease_id = tenant.create_at_any_rate(body, key)
            self._course.made.append(lease_id)
            return lease_id

        if order.leases == 1:
            return [create(wish, keys[0])]
        self._course.bursts += 1
        named = [{**wish, "name": f"{wish['name']}-{place}"} for place in range(order.leases)]
        with ThreadPoolExecutor(order.leases) as asking:
            return list(asking.map(create, named, keys))

    def _make_group(self, tenant: Tenant, order: Order, wish: Json) -> list[str]:
        assert order.group is not None
        terms = {name: wish[name] for name in ("labels", "max_cost", "ttl_seconds") if name in wish}
        body = {**order.group, "lease": {**order.group["lease"], **terms}}
        group = tenant.create_group_at_any_rate(body, f"chaos-{self._wanted.seed}-{order.number}")
        self._course.groups.append(group["id"])
        if "max_cost" in wish:
            self._course.groups_capped.add(group["id"])
        lease_ids = [str(member["lease_id"]) for member in group["members"]]
        self._course.made += lease_ids
        return lease_ids

    def _look(self, tenant: Tenant) -> None:
        with suppress(httpx.HTTPError):
            if self._may_ask.is_set() and len(on_the_way(tenant)) < _MOST_ON_THE_WAY:
                self._room.set()
            else:
                self._room.clear()
            self._groups.note_shared()

    # --- what happens -------------------------------------------------------------------------------------

    def _happen(self, event: Event, tenant: Tenant) -> None:
        act: dict[Happening, Callable[[Event, Tenant], bool]] = {
            Happening.KILL: self._kill,
            Happening.FLUSH: self._flush,
            Happening.RESTART: self._restart_postgres,
            Happening.REDIS: self._stop_redis,
            Happening.OUTAGE: self._lose_cloud,
            Happening.RECLAIM: self._reclaim,
            Happening.CANCEL: self._cancel,
            Happening.LIMIT: self._tighten,
            Happening.PRICE: self._move_prices,
            Happening.COPY: self._copy,
            Happening.STANDBY: self._begin_to_follow,
            Happening.FAILOVER: self._fail_over,
            Happening.BACKUP: self._back_up,
            Happening.RESTORE: self._restore,
            Happening.SCALE: self._group_acts.scale,
            Happening.GROUP_END: self._group_acts.release,
            Happening.VM_STOP: self._group_acts.stop_vm,
            Happening.SHORTAGE: self._group_acts.run_short,
            Happening.DAY: self._pass_a_day,
        }
        self._course.note(f"{event.happening} begins")
        if act[event.happening](event, tenant):
            self._course.note(f"{event.happening} is over")
            self._course.happened[str(event.happening)] += 1
            if event.happening in FAULTS:
                lasts = event.seconds if event.happening in _LASTING else 0.0
                self._course.last_fault = max(self._course.last_fault, self._timeline.seconds + lasts)

    def _kill(self, event: Event, _tenant: Tenant) -> bool:
        """One that has only just been killed is waited for: the number of kills is part of the promise."""
        return wait_until(lambda: self._stack.signal(event.what, signal.SIGKILL) is not None, timeout=PATIENCE)

    def _flush(self, _event: Event, _tenant: Tenant) -> bool:
        def flushed() -> bool:
            with (
                suppress(redis.RedisError),
                redis.Redis.from_url(self._stack.credentials.broker_url, socket_timeout=2) as broker,
            ):
                return bool(broker.flushall())
            return False

        return wait_until(flushed, timeout=PATIENCE, poll=0.2)

    def _restart_postgres(self, _event: Event, _tenant: Tenant) -> bool:
        """SIGQUIT is PostgreSQL's immediate shutdown: no checkpoint, recovery at the next start."""
        return wait_until(lambda: self._stack.signal("postgres", signal.SIGQUIT) is not None, timeout=PATIENCE)

    def _stop_redis(self, event: Event, _tenant: Tenant) -> bool:
        stopped = self._stack.signal("redis", signal.SIGSTOP)
        if stopped is not None:
            self._later(event.seconds, lambda: _go_on(stopped))
        return stopped is not None

    def _lose_cloud(self, event: Event, _tenant: Tenant) -> bool:
        provider, mode = event.what.split()
        fault = ExitStack()
        fault.enter_context(self._installation.cloud.fault("*", mode, provider=provider, times=None))
        self._later(event.seconds, fault.close)
        return True

    def _reclaim(self, event: Event, tenant: Tenant) -> bool:
        def reclaimed() -> bool:
            spot = [vm for vm in self._living(tenant) if vm["market"] == "spot"]
            with suppress(IndexError, httpx.HTTPStatusError):  # there is none, or it has ended meanwhile
                vm = random.Random(event.what).choice(spot)
                self._installation.cloud.interrupt(vm["id"], notice_seconds=2.0, provider=vm["provider"])
                self._course.stopped.add(vm["id"])
                self._course.note("reclaimed", vm["id"])
                return True
            return False

        return wait_until(reclaimed, timeout=_EAGER_SECONDS, poll=0.5)

    def _cancel(self, event: Event, tenant: Tenant) -> bool:
        """A lease whose row is lost just now is not there to be cancelled."""
        kept = [lease_id for lease_id in self._course.made if lease_id not in self._course.cancelled]
        if not kept:
            return False
        lease_id = random.Random(event.what).choice(kept)
        self._course.cancelled.add(lease_id)
        self._course.note("cancelled", lease_id)

        def cancelled() -> bool:
            with suppress(httpx.TransportError):
                answer = tenant.http.delete(f"/v1/leases/{lease_id}")
                return answer.is_success or answer.status_code == httpx.codes.NOT_FOUND
            return False

        return wait_until(cancelled, timeout=PATIENCE, poll=0.2)

    def _tighten(self, event: Event, tenant: Tenant) -> bool:
        """Admission must refuse for a while, or placing must, where a dearer offering no longer fits; leases that there are stay."""
        chance = random.Random(event.what)
        resource: str = "gpus"
        amount: int | str = _NONE
        if chance.random() < 0.5:
            resource, amount = "spend_per_hour", self._part_of_the_spend(tenant, chance.uniform(*_TIGHT_SHARE))
        if not self._limit(tenant, resource, amount):
            return False
        self._later(event.seconds, lambda: self._loosen(tenant))
        return True

    @staticmethod
    def _part_of_the_spend(tenant: Tenant, share: float) -> str:
        with suppress(httpx.HTTPError):
            return f"{tenant.used().get('spend_per_hour', 0.0) * share:.2f}"
        return "0"

    def _loosen(self, tenant: Tenant) -> None:
        """Also after a loss: limits are those of earlier then, and may admit nothing."""
        self._limit(tenant, "gpus", _AMPLE)
        self._limit(tenant, "spend_per_hour", None)

    def _limit(self, tenant: Tenant, resource: str, amount: int | str | None) -> bool:
        def limited() -> bool:
            with suppress(httpx.HTTPError):
                self._installation.operator.limit(tenant.id, resource, amount)
                return True
            return False

        return wait_until(limited, timeout=PATIENCE, poll=0.2)

    def _move_prices(self, event: Event, _tenant: Tenant) -> bool:
        """Of one region at a time, so that the order of the offerings changes too."""
        chance = random.Random(event.what)
        provider, region = chance.choice(self._places)
        self._installation.cloud.move_spot_prices(provider, round(chance.uniform(*_PRICE_FACTORS), 2), region)
        return True

    def _copy(self, event: Event, tenant: Tenant) -> bool:
        """`Launch more like this`: the tags are copied, and what shows who launched a VM is not."""
        living = self._living(tenant)
        if not living:
            return False
        self._course.copies.add(self._installation.cloud.copy(random.Random(event.what).choice(living)))
        return True

    def _living(self, tenant: Tenant) -> list[Json]:
        """VMs that our own launches made."""
        living = self._installation.cloud.vms(TENANT, tenant.id, alive=True)
        return [vm for vm in living if vm["id"] not in self._course.copies]

    def _pass_a_day(self, event: Event, tenant: Tenant) -> bool:
        """While nothing is on its way: a call or a boot would take a day otherwise."""
        self._may_ask.clear()
        try:
            assert wait_until(self._calendar.is_past_first_midnight, timeout=PATIENCE), "the first day does not end"
            assert wait_until(lambda: self._is_at_rest(tenant), timeout=PATIENCE, poll=0.5), "leases stay on their way"
            self._calendar.next_midnight_in(event.seconds)
        finally:
            self._may_ask.set()
        return True

    @staticmethod
    def _is_at_rest(tenant: Tenant) -> bool:
        with suppress(httpx.HTTPError):
            return not on_the_way(tenant)
        return False

    # --- the database loses commits -----------------------------------------------------------------------

    def _begin_to_follow(self, _event: Event, _tenant: Tenant) -> bool:
        self._standbys.append(Standby(self._stack, self._course.happened[Happening.STANDBY]))
        return True

    def _fail_over(self, event: Event, tenant: Tenant) -> bool:
        """Leases go on being made and launched while the standby misses it."""
        standby = self._standbys.pop()
        standby.miss()
        threading.Event().wait(event.seconds)
        holds = len(self._duty.reasons)
        standby.take_over()
        self._stack.wait_until_ready()
        self._loosen(tenant)
        self._note_losses()
        self._expect_hold(holds, "a failover")
        return True

    def _back_up(self, _event: Event, _tenant: Tenant) -> bool:
        self._backups.append(Backup(self._stack, self._course.happened[Happening.BACKUP]))
        return True

    def _restore(self, _event: Event, tenant: Tenant) -> bool:
        """Somebody makes leases before any worker has looked at the clouds."""
        holds = len(self._duty.reasons)
        self._backups.pop().restore(self._calendar.prepare)
        self._loosen(tenant)
        number = self._course.happened[Happening.RESTORE]
        self._course.extra.append(tenant.create_at_any_rate(ONE_A10G, f"at-once-{self._wanted.seed}-{number}"))
        lost = len(self._losses.vms)
        self._note_losses()
        self._stack.start(WORKER, INVENTORY)
        self._stack.wait_until_ready()
        if len(self._losses.vms) > lost:
            self._expect_hold(holds, "a restore")
        return True

    def _note_losses(self) -> None:
        self._losses.note(self._course.made, self._course.groups, self._course.copies)
        self._losses_of_hostile.note((), (), ())
        self._losses.note_volumes([*self._course.volumes], [*self._course.volumes_deleted])
        self._losses_of_hostile.note_volumes((), [*self._thief.deleted])
        self._course.note("what was lost is noted")

    def _expect_hold(self, before: int, cause: str) -> None:
        if not wait_until(lambda: len(self._duty.reasons) > before, timeout=_HOLD_SECONDS):
            self._course.without_hold.append(f"no hold within {_HOLD_SECONDS:g} s of {cause}")

    def _later(self, seconds: float, act: Callable[[], object]) -> None:
        timer = threading.Timer(seconds, act)
        timer.start()
        self._timers.append(timer)


@contextmanager
def _repeated(act: Callable[[], object]) -> Iterator[None]:
    """In a thread of its own, once a second."""
    over = threading.Event()

    def repeat() -> None:
        while not over.wait(_LOOK_SECONDS):
            act()

    act()
    with ThreadPoolExecutor(1) as looking:
        looked = looking.submit(repeat)
        try:
            yield
        finally:
            over.set()
            looked.result()


def _go_on(process: psutil.Process) -> None:
    with suppress(psutil.NoSuchProcess):
        process.send_signal(signal.SIGCONT)
