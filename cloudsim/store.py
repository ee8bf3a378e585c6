"""A state file (SQLite): what changed is written within a quarter of a second, so a killed process loses little.

One row per VM, resource and fact sheet; only changed ones are written, which keeps it cheap at 100,000 VMs.
Durable against the death of the process, not of the machine (`synchronous = OFF`).
"""

from __future__ import annotations

import asyncio
import sqlite3
from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass, field
from decimal import Decimal
from pathlib import Path

from pydantic import TypeAdapter, ValidationError

from cloudsim.credentials import Credentials
from cloudsim.world import Fault, Reservation, Resource, Vm, World
from cloudsim.world.capacity import Cell, Pool
from cloudsim.world.gpus import GpuCondition, GpuConditions
from cloudsim.world.quota import QuotaKey
from cloudsim.world.restrictions import Restrictions

FLUSH_SECONDS = 0.25
BATCH = 2_000
_SCHEMA = "CREATE TABLE IF NOT EXISTS thing (kind TEXT, id TEXT, body BLOB, PRIMARY KEY (kind, id))"


@dataclass(slots=True)
class Facts:
    """What is kept beside VMs and resources."""

    pools: list[tuple[Cell, Pool]] = field(default_factory=list)
    quotas: list[tuple[QuotaKey, int]] = field(default_factory=list)
    offered: dict[str, list[tuple[str, str]]] = field(default_factory=dict)
    spot_factors: list[tuple[tuple[str, str], Decimal]] = field(default_factory=list)
    faults: list[Fault] = field(default_factory=list)
    reservations: list[Reservation] = field(default_factory=list)
    bad_keys: list[str] = field(default_factory=list)
    accounts: dict[str, str] = field(default_factory=dict)
    sessions: dict[str, str] = field(default_factory=dict)
    denied: list[tuple[str, str]] = field(default_factory=list)
    removed_images: list[tuple[str, str]] = field(default_factory=list)
    closed_subnets: list[tuple[str, str]] = field(default_factory=list)
    subnet_addresses: list[tuple[tuple[str, str], int]] = field(default_factory=list)
    subscription_states: dict[str, str] = field(default_factory=dict)
    unregistered: list[tuple[str, str]] = field(default_factory=list)
    launch_codes: list[tuple[tuple[str, str], str]] = field(default_factory=list)
    gpus: list[tuple[tuple[str, str | None], GpuCondition]] = field(default_factory=list)


_VM, _RESOURCE, _FACTS = TypeAdapter(Vm), TypeAdapter(Resource), TypeAdapter(Facts)


def _open(path: Path) -> sqlite3.Connection:
    database = sqlite3.connect(path, isolation_level=None, check_same_thread=False)
    try:
        database.executescript(f"PRAGMA journal_mode = WAL; PRAGMA synchronous = OFF; {_SCHEMA};")
    except sqlite3.DatabaseError:
        database.close()
        raise
    return database


class StateUnreadable(Exception):
    """The state file cannot be opened, or holds what this version cannot read."""


class Store:
    """One state file for one world. Raises StateUnreadable."""

    def __init__(self, path: Path, world: World, credentials: Credentials) -> None:
        self._world = world
        self._credentials = credentials
        self._changed: set[tuple[str, str]] = set()
        self._queue: deque[tuple[str, str]] = deque()
        self._path = path
        try:
            self._db = _open(path)
        except sqlite3.DatabaseError as error:
            raise StateUnreadable(f"state file {path}: {error}") from error

    def load(self) -> None:
        """Put what the file knows into the (empty) world. Raises StateUnreadable."""
        try:
            self._load()
        except ValidationError as error:
            raise StateUnreadable(f"state file {self._path} was written by another version: {error}") from error

    def _load(self) -> None:
        for body in self._bodies("facts"):
            self._apply(_FACTS.validate_json(body))
        self._world.restore(
            [_VM.validate_json(body) for body in self._bodies("vm")],
            [_RESOURCE.validate_json(body) for body in self._bodies("resource")],
        )
        self._world.advance()
        self._world.on_change = self._note

    def flush(self) -> bool:
        """Write one batch of what changed; True when more is left."""
        changed = [self._queue.popleft() for _ in range(min(BATCH, len(self._queue)))]
        self._changed.difference_update(changed)
        written, gone = [], []
        for kind, thing_id in changed:
            body = self._body(kind, thing_id)
            if body is None:
                gone.append((kind, thing_id))
            else:
                written.append((kind, thing_id, body))
        with self._db:
            self._db.execute("BEGIN")
            self._db.executemany("REPLACE INTO thing VALUES (?, ?, ?)", written)
            self._db.executemany("DELETE FROM thing WHERE kind = ? AND id = ?", gone)
        return bool(self._queue)

    async def keep(self) -> None:
        """Flush for ever, in small batches so that calls are served in between."""
        while True:
            more = bool(self._queue) and self.flush()
            await asyncio.sleep(0.01 if more else FLUSH_SECONDS)

    def close(self) -> None:
        """Write everything that is left."""
        while self._queue:
            self.flush()
        self._db.close()

    def _note(self, kind: str, thing_id: str) -> None:
        if (kind, thing_id) not in self._changed:
            self._changed.add((kind, thing_id))
            self._queue.append((kind, thing_id))

    def _bodies(self, kind: str) -> Iterable[bytes]:
        return (body for (body,) in self._db.execute("SELECT body FROM thing WHERE kind = ?", (kind,)))

    def _body(self, kind: str, thing_id: str) -> bytes | None:
        if kind == "facts":
            return _FACTS.dump_json(self._facts())
        if kind == "vm":
            vm = self._world.vms.get(thing_id)
            return _VM.dump_json(vm) if vm else None
        resource = self._world.resources.get(thing_id)
        return _RESOURCE.dump_json(resource) if resource else None

    def _facts(self) -> Facts:
        world, credentials = self._world, self._credentials
        return Facts(
            pools=list(world.capacity.pools.items()),
            quotas=list(world.quotas.limits.items()),
            offered={provider: sorted(sold) for provider, sold in world.offered.items()},
            spot_factors=list(world.spot_factors.items()),
            faults=list(world.faults),
            reservations=list(world.reservations.values()),
            bad_keys=sorted(credentials.bad),
            accounts=dict(credentials.accounts),
            sessions=credentials.sessions,
            denied=sorted(world.restrictions.denied),
            removed_images=sorted(world.restrictions.images),
            closed_subnets=sorted(world.restrictions.closed),
            launch_codes=sorted(world.restrictions.launch_codes.items()),
            subnet_addresses=sorted(world.restrictions.addresses.items()),
            subscription_states=world.restrictions.states,
            unregistered=sorted(world.restrictions.unregistered),
            gpus=list(world.gpus.launched.items()),
        )

    def _apply(self, facts: Facts) -> None:
        world, credentials = self._world, self._credentials
        world.capacity.restore(dict(facts.pools))
        world.quotas.limits = dict(facts.quotas)
        world.offered.update({provider: set(sold) for provider, sold in facts.offered.items()})
        world.spot_factors = dict(facts.spot_factors)
        world.faults.restore(facts.faults)
        world.restrictions = Restrictions(
            denied=set(facts.denied),
            launch_codes=dict(facts.launch_codes),
            images=set(facts.removed_images),
            closed=set(facts.closed_subnets),
            addresses=dict(facts.subnet_addresses),
            states=facts.subscription_states,
            unregistered=set(facts.unregistered),
        )
        world.gpus = GpuConditions(dict(facts.gpus))
        world.reservations = {reservation.key: reservation for reservation in facts.reservations}
        credentials.bad = frozenset(facts.bad_keys)
        credentials.accounts = facts.accounts
        credentials.sessions = facts.sessions
