"""How many machines are left in each (provider, zone, type, market); no entry means no limit."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from cloudsim.world.entities import Market


@dataclass(frozen=True, slots=True)
class Cell:
    """The smallest place that capacity is counted in."""

    provider: str
    zone: str
    instance_type: str
    market: Market


@dataclass(slots=True)
class Pool:
    """What is left since the setting number `epoch`."""

    available: int
    epoch: int


class Capacity:
    """Places left, as `put` set them.

    The end of a VM frees its place only under the setting that it started under: VMs older than the last `put`
    free nothing.
    """

    def __init__(self) -> None:
        self.pools: dict[Cell, Pool] = {}
        self._epoch = 0

    def put(self, cells: Iterable[Cell], available: int | None) -> None:
        """Set every cell to `available` more VMs; None lifts the limit."""
        self._epoch += 1
        for cell in cells:
            if available is None:
                self.pools.pop(cell, None)
            else:
                self.pools[cell] = Pool(available, self._epoch)

    def has(self, cell: Cell) -> bool:
        """One more machine can start."""
        return self.room(cell, 1) == 1

    def room(self, cell: Cell, most: int) -> int:
        """How many more machines can start, at most `most`."""
        pool = self.pools.get(cell)
        return most if pool is None else min(most, max(0, pool.available))

    def take(self, cell: Cell) -> int | None:
        """Use one place; returns the epoch under which to free it."""
        pool = self.pools.get(cell)
        if pool is None:
            return None
        pool.available -= 1
        return pool.epoch

    def give_back(self, cell: Cell, epoch: int | None) -> None:
        """A machine is free again, if the setting it came from still holds."""
        pool = self.pools.get(cell)
        if pool is not None and pool.epoch == epoch:
            pool.available += 1

    def restore(self, pools: dict[Cell, Pool]) -> None:
        """Take over stored pools."""
        self.pools = pools
        self._epoch = max((pool.epoch for pool in pools.values()), default=0)
