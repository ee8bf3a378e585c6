"""What one process knows of the keys of launch batches, so that it need not find out for each lease anew."""

import threading
from collections import OrderedDict
from contextlib import AbstractContextManager
from dataclasses import dataclass
from datetime import datetime
from typing import TypeVar

V = TypeVar("V")

_MOST_KEYS = 1_000
_ELECTIONS = 64
"""Elections that may run at the same time. Keys share them by their hash."""


@dataclass(slots=True)
class _Leader:
    """A leader gathers its batch at `slot`. `room`: how many more attempts it takes."""

    slot: datetime
    room: int


class BatchKeys:
    """Keys for which a create call was planned, and the leaders that wait for their slots."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._elections = [threading.Lock() for _ in range(_ELECTIONS)]
        self._planned: OrderedDict[str, None] = OrderedDict()
        self._leaders: OrderedDict[str, _Leader] = OrderedDict()

    def is_planned(self, key: str) -> bool:
        """Whether the adapter has planned a create call of this key: it accepts the parameters of the others too."""
        with self._lock:
            return key in self._planned

    def planned(self, key: str) -> None:
        """The adapter has planned a create call of this key."""
        with self._lock:
            _remember(self._planned, key, None)

    def electing(self, key: str) -> AbstractContextManager[object]:
        """One thread of this process elects a leader of the key. The others wait, and then follow that leader."""
        return self._elections[hash(key) % _ELECTIONS]

    def lead(self, key: str, slot: datetime, room: int) -> None:
        """A lease leads the key, and takes `room` more attempts."""
        with self._lock:
            _remember(self._leaders, key, _Leader(slot, room))

    def follow(self, key: str, now: datetime) -> datetime | None:
        """The slot of a leader that takes one more attempt, which counts from now on. None: this process knows of none."""
        with self._lock:
            leader = self._leaders.get(key)
            if leader is None or leader.slot <= now or leader.room <= 0:
                return None
            leader.room -= 1
            return leader.slot

    def move(self, key: str, slot: datetime) -> None:
        """The leader gathers its batch later than it said."""
        with self._lock:
            leader = self._leaders.get(key)
            if leader is not None:
                leader.slot = max(leader.slot, slot)

    def gather(self, key: str) -> None:
        """The leader gathers its batch: nobody follows it any more."""
        with self._lock:
            self._leaders.pop(key, None)


def _remember(known: OrderedDict[str, V], key: str, value: V) -> None:
    known[key] = value
    known.move_to_end(key)
    while len(known) > _MOST_KEYS:
        known.popitem(last=False)
