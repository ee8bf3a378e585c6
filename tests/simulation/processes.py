"""Worker processes: the program's own code in actors that may be killed or stall between any two acts, and come back."""

from collections.abc import Callable, Sequence
from concurrent.futures import Executor, Future
from dataclasses import dataclass, field, replace
from typing import ParamSpec, TypeVar

from sqlalchemy.exc import DBAPIError

from app.domain.ids import LeaseId
from app.settings import AccountSettings, Settings
from tests.simulation.adapter import SimulatedProvider
from tests.simulation.cloud import Cloud, Machine, Violation
from tests.simulation.database import Clocked, VirtualDatabase
from tests.simulation.scheduler import Actor, Killed, Scheduler
from tests.simulation.trace import Trace
from tests.simulation.weather import Weather
from workers.groups.coordinator import Coordinator
from workers.jobs.runner import PeriodicRunner
from workers.jobs.schedule import job_specs
from workers.lifecycle.reconciler import Reconciler
from workers.lifecycle.sweeper import Sweeper
from workers.observation.slot_labels import label_noted
from workers.process.bootstrap import assemble
from workers.runtime.runtime import Runtime

LEASES, JOBS, INVENTORY, GROUPS = "leases", "jobs", "inventory", "groups"
_OUTAGE_PAUSE = 0.5
_NOTICES = 30.0
"""Seconds between two looks for what nobody causes, such as idle leases. Seeds without agents have none."""
_RARELY = 400.0
"""Housekeeping here is the invariants' recount and budgets. Its other jobs have nothing to do, as those of `_IDLE_HERE`."""
_IDLE_HERE = ("checks", "reservations", "operators")
"""Refreshes without work: an account is checked once a day, no cloud has a reservation, and no operator gets messages."""


@dataclass(eq=False)
class Grounds:
    """What all processes of a run share. `budgets_interval`: seconds between two runs of the job of budgets."""

    scheduler: Scheduler
    clocked: Clocked
    trace: Trace
    settings: Settings
    accounts: dict[str, AccountSettings]
    clouds: dict[str, Cloud]
    weather: Weather
    listed: Callable[[Cloud, bool, float], None]
    ending: Callable[[Cloud, Sequence[str]], None]
    rebooted: Callable[[Machine], None]
    hints: list[LeaseId] = field(default_factory=list)
    forgers: frozenset[str] = frozenset()
    """Tenants whose VMs send what is not true: what is judged by reports is not judged for them."""
    budgets_interval: float = _RARELY
    stalled_until: dict[str, float] = field(default_factory=dict)
    """Of each process that reconciles leases: the end of its last stall."""
    longest_standstill: float = 0.0
    """The longest time for which all of them stalled, in seconds: nobody looks at a lease then."""
    awake_at: float = 0.0
    """When the last stall of any process ends."""


P = ParamSpec("P")
T = TypeVar("T")


class _AtOnce(Executor):
    """A pool without threads."""

    def submit(self, fn: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> Future[T]:
        fn(*args, **kwargs)
        return Future()


class Process:
    """One place for a process of a role: when it is killed another one starts there after a while."""

    def __init__(self, grounds: Grounds, name: str, role: str) -> None:
        self._grounds = grounds
        self._name = name
        self._role = role
        self.call_timeout = grounds.settings.call_timeout
        self.connect_timeout = grounds.settings.connect_timeout
        self._stall = (0.0, float("-inf"))
        self._actor: Actor | None = None
        if role == LEASES:
            grounds.stalled_until[name] = 0.0
        self._start(after=grounds.scheduler.random.uniform(0, 5))

    def _start(self, *, after: float) -> None:
        self._actor = self._grounds.scheduler.spawn(self._name, self._live, after=after)

    # --- what happens to it -------------------------------------------------------------------------------

    def point(self, where: str) -> None:
        """Between two acts. Within a transaction nobody else acts, but the process may be killed there too."""
        scheduler, weather = self._grounds.scheduler, self._grounds.weather
        if self._actor is None or self._actor.dead:
            raise Killed
        if scheduler.random.random() < weather.killed:
            self._die(where)
        if where == "before commit":
            return
        if scheduler.random.random() < weather.stalled:
            scheduler.count("process: stalled")
            self._sleep(scheduler.random.uniform(1, 2 * self._grounds.settings.claim_seconds), where)
        else:
            scheduler.pause(scheduler.random.uniform(0.001, 0.05) if scheduler.random.random() < 0.3 else 0.0)

    def stall(self, where: str) -> None:
        """For longer than a claim lasts."""
        claim = self._grounds.settings.claim_seconds
        self._sleep(self._grounds.scheduler.random.uniform(1.1 * claim, 2.2 * claim), where)

    def _sleep(self, seconds: float, where: str) -> None:
        scheduler = self._grounds.scheduler
        self._grounds.trace.tell(f"stalls for {seconds:.1f} s {where}")
        began = self.acting_since()
        self._grounds.awake_at = max(self._grounds.awake_at, scheduler.now + seconds)
        self._note_standstill(scheduler.now + seconds)
        scheduler.pause(seconds)
        self._stall = (began, scheduler.now)

    def _note_standstill(self, until: float) -> None:
        grounds = self._grounds
        if self._name in grounds.stalled_until:
            grounds.stalled_until[self._name] = until
            together = min(grounds.stalled_until.values()) - grounds.scheduler.now
            grounds.longest_standstill = max(grounds.longest_standstill, together)

    def acting_since(self) -> float:
        """Now, or the beginning of the stall that has only just ended."""
        began, ended = self._stall
        now = self._grounds.scheduler.now
        return began if now - ended < 1.0 else now

    def database_fails(self) -> bool:
        scheduler = self._grounds.scheduler
        away = scheduler.random.random() < self._grounds.weather.database_away
        if away:
            scheduler.count("process: database away")
        return away

    def crash(self, where: str) -> None:
        """Killed from outside, while it waits."""
        if self._actor is not None:
            self._grounds.trace.tell(f"{self._name} is killed {where}")
            self._grounds.scheduler.count("process: killed")
            self._grounds.scheduler.kill(self._actor)
            self._start(after=self._grounds.scheduler.random.uniform(0.5, 40))

    def _die(self, where: str) -> None:
        assert self._actor is not None
        self._grounds.trace.tell(f"is killed {where}")
        self._grounds.scheduler.count("process: killed")
        self._actor.dead = True
        self._start(after=self._grounds.scheduler.random.uniform(0.5, 40))
        raise Killed

    # --- what it does -------------------------------------------------------------------------------------

    def _live(self) -> None:
        grounds = self._grounds
        database = VirtualDatabase(grounds.clocked, grounds.scheduler, self)
        try:
            runtime = assemble(
                database, grounds.settings, grounds.accounts, self._connect, monotonic=lambda: grounds.scheduler.now
            )
        except DBAPIError as error:
            _expect_outage(error)
            self._die("at its start, without a database")
            return
        work = self._work(runtime)
        while True:
            try:
                busy = work()
            except DBAPIError as error:
                _expect_outage(error)
                grounds.scheduler.pause(_OUTAGE_PAUSE)
                continue
            if not busy:
                grounds.scheduler.idle(self._role, grounds.scheduler.random.uniform(0.05, 1.0))

    def _connect(self, account: AccountSettings, settings: Settings) -> SimulatedProvider:
        grounds = self._grounds
        return SimulatedProvider(grounds.clouds[account.name], self, grounds.listed, grounds.ending, grounds.rebooted)

    def _work(self, runtime: Runtime) -> Callable[[], bool]:
        every = job_specs(runtime.settings)
        if self._role == INVENTORY:
            return PeriodicRunner(runtime, every.inventory).run_one
        if self._role == JOBS:
            idle = {name: every.refresh[name] for name in _IDLE_HERE}
            seldom = {**every.housekeeping, **idle}.items()
            rarely = {name: replace(kind, interval=lambda _: _RARELY, idle=None) for name, kind in seldom}
            rarely["budgets"] = replace(
                every.housekeeping["budgets"], interval=lambda _: self._grounds.budgets_interval
            )
            at_times = {name: replace(kind, interval=lambda _: _NOTICES) for name, kind in every.notices.items()}
            notices = at_times if runtime.settings.agent == "on" else {}
            runner = PeriodicRunner(runtime, {**every.watch, **every.refresh, **rarely, **notices})
            return lambda: runner.run_one() or label_noted(runtime) > 0
        if self._role == GROUPS:
            coordinator = Coordinator(runtime)
            return lambda: coordinator.sweep() is not None
        reconciler = Reconciler(runtime)
        sweeper = Sweeper(runtime, reconciler)
        sweeper._pool = _AtOnce()  # pyrefly: ignore[bad-assignment]
        return lambda: self._hinted(reconciler) or sweeper.sweep()

    def _hinted(self, reconciler: Reconciler) -> bool:
        hints = self._grounds.hints
        return bool(hints) and reconciler.run_hinted(hints.pop())


def _expect_outage(error: DBAPIError) -> None:
    """A process goes on after an outage. Any other statement that fails is a fault of the program's."""
    if not error.connection_invalidated:
        raise Violation(f"a statement failed, and no outage was the cause: {error.orig}") from error
