"""One thread, many actors, a clock that only moves when all of them wait: discrete events in seeded order.

An actor is a greenlet: the program's own synchronous code runs in it unchanged, and gives way to the others wherever it
would wait for a cloud or the database. Two runs from one seed give way at the same points in the same order.
"""

import heapq
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from random import Random
from typing import Any

from greenlet import greenlet

_SOON = 0.1
EPOCH = datetime(2029, 12, 31, 23, 55, tzinfo=UTC)
"""Each run crosses the end of a day, of a month and of a year, in the middle of its storm."""


class Killed(BaseException):
    """The process of this actor is gone: nothing of it may run any more."""


@dataclass(eq=False)
class Actor:
    """Something that acts. `idle_role`: it has nothing to do until there is work of this role, or it is woken."""

    name: str
    thread: Any = None
    dead: bool = False
    idle_role: str | None = None
    jitter: float = 0.0


_Event = tuple[float, float, int, Callable[[], None]]
"""When, a random number that decides between events of the same time, the event's own number, and what happens."""


class Scheduler:
    """`due`: seconds since the start at which each role has work next; asked again only when something has changed.

    `events`: how often each kind of event has happened, counted by whoever makes it happen.
    """

    def __init__(self, random: Random) -> None:
        self.random = random
        self.now = 0.0
        self.changed = True
        self.due: Callable[[], dict[str, float]] = dict
        self.steps = 0
        self.events: Counter[str] = Counter()
        self.current: Actor | None = None
        self._events: list[_Event] = []
        self._actors: list[Actor] = []
        self._idle: list[Actor] = []
        self._known_due: dict[str, float] = {}

    @property
    def time(self) -> datetime:
        return EPOCH + timedelta(seconds=self.now)

    def count(self, kind: str) -> None:
        """An event of this kind happens now."""
        self.events[kind] += 1

    def at(self, when: float, act: Callable[[], None]) -> None:
        """Something happens by itself, such as a VM that starts."""
        self.steps += 1
        heapq.heappush(self._events, (max(when, self.now), self.random.random(), self.steps, act))

    def after(self, seconds: float, act: Callable[[], None]) -> None:
        self.at(self.now + seconds, act)

    def spawn(self, name: str, run: Callable[[], None], *, after: float = 0.0) -> Actor:
        actor = Actor(name)

        def body() -> None:
            try:
                run()
            except Killed:
                actor.dead = True

        actor.thread = greenlet(body)
        self._actors = [other for other in self._actors if not other.dead] + [actor]
        self.after(after, lambda: self._switch(actor))
        return actor

    def pause(self, seconds: float) -> None:
        """The current actor waits; others act meanwhile."""
        actor = self._acting()
        self.after(seconds, lambda: self._switch(actor))
        self._leave(actor)

    def idle(self, role: str, jitter: float) -> None:
        """The current actor waits until its role has work, and `jitter` seconds longer."""
        actor = self._acting()
        actor.idle_role, actor.jitter = role, jitter
        self._idle.append(actor)
        self._leave(actor)

    def kill(self, actor: Actor) -> None:
        """From outside: it never acts again, though its `finally` blocks run (and find everything gone)."""
        actor.dead = True
        if actor in self._idle:
            self._idle.remove(actor)
        if actor.thread and not actor.thread.dead:
            before, self.current = self.current, actor
            actor.thread.switch()
            self.current = before

    def stop(self) -> None:
        """Nobody acts any more."""
        for actor in self._actors:
            self.kill(actor)
        self._events.clear()

    def run(self, until: float) -> None:
        """Lets things happen up to this time."""
        while True:
            woken = self._next_idle()
            event = self._events[0] if self._events else None
            if woken is not None and (event is None or woken[0] < event[0]):
                when, actor = woken
                if when > until:
                    break
                self.now = max(self.now, when)
                self._idle.remove(actor)
                actor.idle_role = None
                self._switch(actor)
            elif event is not None and event[0] <= until:
                at, _, _, act = heapq.heappop(self._events)
                self.now = max(self.now, at)
                act()
            else:
                break
        self.now = max(self.now, until)

    def _next_idle(self) -> tuple[float, Actor] | None:
        if not self._idle:
            return None
        if self.changed and self._worth_asking():
            self.changed = False
            self._known_due = self.due()
        return min(
            ((max(self.now, self._known_due.get(a.idle_role or "", 1e12)) + a.jitter, a) for a in self._idle),
            key=lambda pair: pair[0],
        )

    def _worth_asking(self) -> bool:
        """Always when nothing else happens soon, and now and then between the acts of somebody."""
        soon = bool(self._events) and self._events[0][0] - self.now < _SOON
        return not soon or self.random.random() < 0.2

    def _acting(self) -> Actor:
        assert self.current is not None, "only an actor may wait"
        if self.current.dead:
            raise Killed
        return self.current

    def _leave(self, actor: Actor) -> None:
        actor.thread.parent.switch()
        if actor.dead:
            raise Killed

    def _switch(self, actor: Actor) -> None:
        if actor.dead or actor.thread.dead:
            return
        before, self.current = self.current, actor
        try:
            actor.thread.switch()
        finally:
            self.current = before
