"""Carries a plan out on a running stack, while leases are asked for, and judges what is left."""

import itertools
import math
import random
import signal
import threading
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager, suppress
from typing import Any

import httpx
import psutil
import redis

from app.domain.tags import LEASE, TENANT
from app.local.waiting import wait_until
from bench.three_clouds import Installation, figures, on_the_way, wait_for_none, wishes
from tests.chaos.plan import ASKING_SHARE, FAULTS, Event, Happening, Wanted, events
from tests.chaos.timeline import Line, Timeline
from tests.e2e.cloud import Json
from tests.e2e.people import Tenant
from tests.e2e.stack import PATIENCE, Stack
from tests.e2e.truth import differences

_ASKING = 8
_MOST_ON_THE_WAY = 60
"""Leases; who asks for more waits. Otherwise a slow machine would be measured by the queue that it cannot keep up with."""
_AMPLE, _TIGHT = 1_000_000, 0
_QUIET_SECONDS = 300.0
_EAGER_SECONDS = 5.0
_CYCLE_SECONDS = 20.0
_LOOK_SECONDS = 1.0


class Storm:
    """One run. `report` has the figures; what is wrong stands in its `wrong`."""

    def __init__(self, stack: Stack, installation: Installation, wanted: Wanted) -> None:
        self._stack = stack
        self._installation = installation
        self._wanted = wanted
        self._made: list[str] = []
        self._cancelled: set[str] = set()
        self._done: Counter[str] = Counter()
        self._timers: list[threading.Timer] = []
        self._timeline = Timeline()
        self._room = threading.Event()
        self._last_fault = 0.0

    def run(self) -> dict[str, Any]:
        """Until everything is quiet and judged."""
        operator = self._installation.operator
        with operator.tenant("chaos", _AMPLE) as tenant:
            with _repeated(lambda: self._look(tenant)), ThreadPoolExecutor(_ASKING) as asking:
                orders = [asking.submit(self._ask, tenant, n, wish) for n, wish in self._wishes()]
                for event in events(self._wanted):
                    self._timeline.wait_for(Line.HAPPENING, event.at)
                    self._happen(event, tenant)
                    self._timeline.reached(Line.HAPPENING, event.at)
                self._timeline.reached(Line.HAPPENING, math.inf)
                for timer in self._timers:
                    timer.join()
                asked = {order.result() for order in orders}
            return self._judge(tenant, asked)

    # --- leases -------------------------------------------------------------------------------------------

    def _wishes(self) -> list[tuple[int, dict[str, Any]]]:
        return list(enumerate(itertools.islice(wishes(), self._wanted.leases)))

    def _ask(self, tenant: Tenant, number: int, wish: dict[str, Any]) -> str:
        """At its time, when there is room; again and again under one key while the API is away, or the quota tight."""
        at = number * self._wanted.seconds * ASKING_SHARE / self._wanted.leases
        self._timeline.wait_for(Line.ASKING, at)
        self._room.wait()
        lease_id = tenant.create_at_any_rate(wish, f"chaos-{self._wanted.seed}-{number}")
        self._made.append(lease_id)
        self._timeline.reached(Line.ASKING, math.inf if number + 1 == self._wanted.leases else at)
        return lease_id

    def _look(self, tenant: Tenant) -> None:
        with suppress(httpx.HTTPError):
            if len(on_the_way(tenant)) < _MOST_ON_THE_WAY:
                self._room.set()
            else:
                self._room.clear()

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
        }
        if act[event.happening](event, tenant):
            self._done[str(event.happening)] += 1
            if event.happening in FAULTS:
                self._last_fault = max(self._last_fault, self._timeline.seconds + event.seconds)

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
            vms = self._installation.cloud.vms(TENANT, tenant.id, alive=True)
            spot = [vm for vm in vms if vm["market"] == "spot"]
            with suppress(IndexError, httpx.HTTPStatusError):  # there is none, or it has ended meanwhile
                vm = random.Random(event.what).choice(spot)
                self._installation.cloud.interrupt(vm["id"], notice_seconds=2.0, provider=vm["provider"])
                return True
            return False

        return wait_until(reclaimed, timeout=_EAGER_SECONDS, poll=0.5)

    def _cancel(self, event: Event, tenant: Tenant) -> bool:
        kept = [lease_id for lease_id in self._made if lease_id not in self._cancelled]
        if not kept:
            return False
        lease_id = random.Random(event.what).choice(kept)
        self._cancelled.add(lease_id)

        def cancelled() -> bool:
            with suppress(httpx.TransportError):
                return tenant.http.delete(f"/v1/leases/{lease_id}").is_success
            return False

        return wait_until(cancelled, timeout=PATIENCE, poll=0.2)

    def _tighten(self, event: Event, tenant: Tenant) -> bool:
        """Admission must refuse for a while; leases that there are stay."""
        if not wait_until(lambda: self._limit(tenant, _TIGHT), timeout=PATIENCE, poll=0.2):
            return False
        self._later(event.seconds, lambda: wait_until(lambda: self._limit(tenant, _AMPLE), timeout=PATIENCE, poll=0.2))
        return True

    def _limit(self, tenant: Tenant, gpus: int) -> bool:
        with suppress(httpx.HTTPError):
            self._installation.operator.limit_gpus(tenant.id, gpus)
            return True
        return False

    def _later(self, seconds: float, act: Callable[[], object]) -> None:
        timer = threading.Timer(seconds, act)
        timer.start()
        self._timers.append(timer)

    # --- judgement ----------------------------------------------------------------------------------------

    def _judge(self, tenant: Tenant, asked: set[str]) -> dict[str, Any]:
        """Waits for quiet, then for the truth; at last everything is released, and nothing may be left."""
        self._stack.wait_until_ready()
        last: list[str] = []

        def still() -> list[Json]:
            found = on_the_way(tenant)
            last[:] = [f"{lease['id']} is {lease['state']}" for lease in found] or last
            return found

        waiting = wait_for_none(still, seconds=_QUIET_SECONDS)
        quiet = self._timeline.seconds - self._last_fault
        found = tenant.leases()
        how_it_went = figures(found)
        there = Counter(lease["id"] for lease in found)
        wrong = {
            "lost": sorted(asked - set(there)),
            "doubled": sorted(set(there) - asked),
            "stuck": list(last) if waiting else [],
            "differences": self._differences(),
        }
        evidence = self._evidence(tenant, found, [*wrong["differences"], *last])
        tenant.release_all()
        used = wait_for_none(lambda: [*tenant.used().items()], _CYCLE_SECONDS)
        wrong["quota"] = [f"{resource} {amount}" for resource, amount in used]
        left = wait_for_none(lambda: self._installation.cloud.resources_of_tenant(tenant.id), _CYCLE_SECONDS)
        wrong["left over"] = [str(thing) for thing in left]
        wrong["differences after all ended"] = self._differences()
        return {
            "leases": self._wanted.leases,
            "seed": self._wanted.seed,
            "happened": dict(self._done),
            "seconds_until_the_last_fault_ended": round(self._last_fault),
            "quiet_seconds_after_the_last_fault": round(quiet, 1),
            "wrong": {what: some for what, some in wrong.items() if some},
            "evidence": evidence,
            **how_it_went,
        }

    def _evidence(self, tenant: Tenant, leases: Sequence[Json], lines: Sequence[str]) -> list[Json]:
        """What both sides know of each lease that a line names, and how observation goes."""
        named = [lease["id"] for lease in leases if any(lease["id"] in line for line in lines)]
        vms = self._installation.cloud.vms(TENANT, tenant.id) if named else []
        about: list[Json] = [
            {
                "lease": tenant.lease(lease_id),
                "attempts": tenant.attempts(lease_id),
                "vms": [vm for vm in vms if vm["tags"].get(LEASE) == lease_id],
            }
            for lease_id in named
        ]
        return [*about, *(self._installation.operator.items("/v1/ops/accounts") if named else ())]

    def _differences(self) -> list[str]:
        one = self._installation
        return list(wait_for_none(lambda: differences(one.operator, one.cloud, one.database_url), _CYCLE_SECONDS))


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
