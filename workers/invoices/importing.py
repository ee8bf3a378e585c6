"""Imports the FOCUS file of one provider and month, in one transaction: all of it, or nothing."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from decimal import Decimal
from pathlib import Path
from typing import Any

from sqlalchemy import Connection

from app.db.core.ids import new_id
from app.db.operations import invoices as statements
from app.db.operations import reconciliation
from app.db.operations.reconciliation import ReconciliationFilter
from app.db.tenancy import audit
from app.domain.invoices import Charge, FocusDialect, InvalidCharge, missing_columns, parse, provider_named
from workers.database import WorkerDatabase
from workers.invoices.files import InvalidFile, Row, fingerprint, read

_MOST_SUMS = 20_000
"""Sums in memory before they are written. A sum that is written in parts is still the same sum."""
_TICK = 10_000

Dialects = Mapping[str, FocusDialect]


class AlreadyImported(Exception):
    """The file was imported before."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Imported:
    """What an import did. `stored`: lines that matter to gpulease. `unlisted`: resources of ours without a lease."""

    provider: str
    month: date
    lines: int
    stored: int
    replaced: int
    unlisted: int
    unlisted_cost: Decimal
    gpulease_only: int


@dataclass(slots=True)
class _Reading:
    """What the lines so far have in common."""

    month: date
    lines: int = 0
    stored: int = 0
    first_day: date = date.max
    last_day: date = date.min


def import_files(
    database: WorkerDatabase,
    paths: Sequence[Path],
    dialects: Dialects,
    *,
    provider: str | None,
    progress: Callable[[int], None],
) -> Imported:
    """`paths`: the parts of one export. `provider` None: as the file names it. `progress`: called with the line count.

    A later import of the same provider, month and billing account replaces this one.
    Raises InvalidFile, AlreadyImported, OSError.
    """
    file_hash = fingerprint(paths)
    source = _Source(paths, dialects, provider)
    with database.begin() as connection:
        connection.execute(statements.LOCK)
        _check_new(connection, file_hash)
        return _Import(connection, source, progress).run(", ".join(path.name for path in paths), file_hash)


def _check_new(connection: Connection, file_hash: bytes) -> None:
    row = connection.execute(statements.with_hash(file_hash)).one_or_none()
    if row is not None:
        replaced = (
            "" if row.replaced_at is None else f", and replaced by a newer file at {row.replaced_at:%Y-%m-%d %H:%M}"
        )
        raise AlreadyImported(f"this file was imported at {row.imported_at:%Y-%m-%d %H:%M} UTC{replaced}")


class _Source:
    """The charges of all parts, with the place of each for messages."""

    def __init__(self, paths: Sequence[Path], dialects: Dialects, provider: str | None) -> None:
        self._paths = paths
        self._dialects = dialects
        self.provider = provider or _provider_of(paths[0], dialects)
        self._dialect = dialects[self.provider]

    def charges(self) -> Iterator[tuple[Path, int, Charge]]:
        """Raises InvalidFile."""
        extra = () if self._dialect.usd_cost is None else (self._dialect.usd_cost,)
        for path in self._paths:
            names, rows = read(path, extra)
            missing = missing_columns(names, self._dialect)
            if missing:
                raise InvalidFile(path, 1, f"there is no column {', no column '.join(missing)}: is this a FOCUS file?")
            for line, row in rows:
                yield path, line, self._parse(path, line, row)

    def _parse(self, path: Path, line: int, row: Row) -> Charge:
        named = provider_named(row, self._dialects)
        if named not in {None, self.provider}:
            raise InvalidFile(path, line, f"ProviderName is that of {named}, and the import is of {self.provider}")
        try:
            return parse(row, self._dialect)
        except InvalidCharge as invalid:
            raise InvalidFile(path, line, str(invalid)) from None


def _provider_of(path: Path, dialects: Dialects) -> str:
    _, rows = read(path)
    for line, row in rows:
        named = provider_named(row, dialects)
        if named is None:
            raise InvalidFile(path, line, f"ProviderName is none of {', '.join(dialects)}: name one with --provider")
        return named
    raise InvalidFile(path, 1, "has no lines of charges")


class _Import:
    """One import within its transaction."""

    def __init__(self, connection: Connection, source: _Source, progress: Callable[[int], None]) -> None:
        self._connection = connection
        self._source = source
        self._progress = progress
        self._id = new_id("import")
        self._accounts: set[str] = set()
        self._sums: dict[tuple[Any, ...], Decimal] = {}

    def run(self, file_name: str, file_hash: bytes) -> Imported:
        """Raises InvalidFile."""
        read = self._read(file_name, file_hash)
        self._write()
        provider, accounts = self._source.provider, sorted(self._accounts)
        replaced = self._connection.execute(
            *statements.replace_earlier(self._id, provider=provider, month=read.month, accounts=accounts)
        ).all()
        found = {"billing_accounts": accounts, "lines": read.lines}
        days = {"first_day": read.first_day, "last_day": read.last_day}
        self._connection.execute(statements.finish(self._id, {**found, **days}))
        totals = self._connection.execute(*reconciliation.totals(ReconciliationFilter(month=read.month))).all()
        unlisted = sum(row.unlisted for row in totals)
        unlisted_cost = sum((row.unlisted_cost for row in totals), Decimal(0))
        alarm = {"unlisted_resources": unlisted, "unlisted_cost": unlisted_cost}
        self._connection.execute(statements.finish(self._id, alarm))
        done = Imported(
            provider=provider,
            month=read.month,
            lines=read.lines,
            stored=read.stored,
            replaced=len(replaced),
            unlisted=unlisted,
            unlisted_cost=unlisted_cost,
            gpulease_only=sum(row.gpulease_only for row in totals),
        )
        self._connection.execute(audit.append(_audited(self._id, file_name, done)))
        return done

    def _read(self, file_name: str, file_hash: bytes) -> _Reading:
        reading: _Reading | None = None
        for path, line, charge in self._source.charges():
            if reading is None:
                reading = _Reading(charge.month)
                about = {"id": self._id, "file_name": file_name, "file_hash": file_hash}
                values = {**about, "provider": self._source.provider, "month": charge.month}
                self._connection.execute(statements.add(values))
            if charge.month != reading.month:
                detail = (
                    f"BillingPeriodStart is in {charge.month:%Y-%m}, and in {reading.month:%Y-%m} on the lines before"
                )
                raise InvalidFile(path, line, f"{detail}: import one month at a time")
            self._count(reading, charge)
        if reading is None:
            raise InvalidFile(Path(file_name), 1, "has no lines of charges")
        self._progress(reading.lines)
        return reading

    def _count(self, reading: _Reading, charge: Charge) -> None:
        reading.lines += 1
        reading.first_day = min(reading.first_day, charge.day)
        reading.last_day = max(reading.last_day, charge.day)
        self._accounts.add(charge.billing_account)
        if reading.lines % _TICK == 0:
            self._progress(reading.lines)
        if not charge.is_relevant:
            return
        reading.stored += 1
        key = (
            *(charge.day, charge.billing_account, charge.resource_id, charge.charge_category, charge.service),
            *(charge.lease_id, charge.installation, charge.is_vm),
        )
        self._sums[key] = self._sums.get(key, Decimal(0)) + charge.cost
        if len(self._sums) >= _MOST_SUMS:
            self._write()

    def _write(self) -> None:
        names = (
            "day",
            "billing_account",
            "resource_id",
            "charge_category",
            "service",
            "lease_id",
            "installation",
            "is_vm",
        )
        common = {"import_id": self._id, "provider": self._source.provider}
        rows = [
            {**common, **dict(zip(names, key, strict=True)), "cost": cost} for key, cost in self._sums.items() if cost
        ]
        if rows:
            self._connection.execute(statements.ADD_LINES, rows)
        self._sums.clear()


def _audited(import_id: str, file_name: str, done: Imported) -> dict[str, Any]:
    counts = {"lines": done.lines, "unlisted_resources": done.unlisted, "unlisted_cost": str(done.unlisted_cost)}
    return {
        "id": new_id("audit"),
        "principal": "system",
        "role": "system",
        "action": "invoice.import",
        "target": import_id,
        "after": {"file": file_name, "provider": done.provider, "month": f"{done.month:%Y-%m}", **counts},
    }
