"""Ids that are the same in every run of a seed. Ids sort by creation, and the program relies on that order."""

from collections.abc import Iterator
from contextlib import contextmanager
from random import Random
from uuid import UUID

import pytest

from app.db.core import ids
from tests.simulation.scheduler import Scheduler


class VirtualUuids:
    """Stands in for `uuid_utils` in `app.db.core.ids`. `random` is the ids' own: an id more or less changes nothing else."""

    def __init__(self, scheduler: Scheduler, seed: int) -> None:
        self._scheduler = scheduler
        self._random = Random(f"ids of {seed}")

    def uuid7(self) -> UUID:
        """RFC 9562, version 7: milliseconds since 1970, then random bits around version and variant."""
        milliseconds = int(self._scheduler.time.timestamp() * 1000)
        head, tail = self._random.getrandbits(12), self._random.getrandbits(62)
        return UUID(int=milliseconds << 80 | 7 << 76 | head << 64 | 2 << 62 | tail)


@contextmanager
def virtual_ids(scheduler: Scheduler, seed: int) -> Iterator[None]:
    """Within the block, new ids carry the virtual time."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(ids, "uuid_utils", VirtualUuids(scheduler, seed))
        yield
