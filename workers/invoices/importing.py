"""Imports the FOCUS file of one provider and month: all of it, or nothing.

The file is read and checked first. One transaction then stores what it contains.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date
from decimal import Decimal
from pathlib import Path
from typing import Any

from sqlalchemy import Connection

from app.db.core.ids import new_id
from app.db.operations import invoices as statements
from app.db.operations import reconciliation
from app.db.tenancy import audit
from app.domain.invoices import Charge, FocusDialect, InvalidCharge, missing_columns, parse, provider_named
from app.domain.list_filters import ReconciliationFilter
from workers.invoices.files import InvalidFile, Row, fingerprint, read
from workers.invoices.sums import Sums
from workers.runtime.database import WorkerDatabase

_TICK = 10_000

Dialects = Mapping[str, FocusDialect]


class AlreadyImported(Exception):
    """The file was imported before."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ImportSummary:
    """What an import did. `stored`: lines that matter to gpulease.

    `unlisted`: resources of ours without a lease, among the lines of this import. `shrunk`: for each billing account of
    which it has fewer charges or days than what it replaces, a sentence.
    """

    provider: str
    month: date
    lines: int
    stored: int
    replaced: int
    unlisted: int
    unlisted_cost: Decimal
    gpulease_only: int
    shrunk: tuple[str, ...]


@dataclass(slots=True)
class _Reading:
    """What the lines so far have in common."""

    month: date
    lines: int = 0
    stored: int = 0
    first_day: date = date.max
    last_day: date = date.min
    accounts: set[str] = field(default_factory=set)

    def count(self, charge: Charge) -> None:
        """Takes one line into account."""
        self.lines += 1
        self.stored += charge.is_relevant
        if charge.day.replace(day=1) == self.month:
            self.first_day = min(self.first_day, charge.day)
            self.last_day = max(self.last_day, charge.day)
        self.accounts.add(charge.billing_account)


def import_files(
    database: WorkerDatabase,
    paths: Sequence[Path],
    dialects: Dialects,
    *,
    provider: str | None,
    progress: Callable[[int], None],
) -> ImportSummary:
    """`paths`: the parts of one export. `provider` None: as the file names it. `progress`: called with the line count.

    A later import of the same provider, month and billing account replaces this one.
    Raises InvalidFile, AlreadyImported, OSError.
    """
    file_hash = fingerprint(paths)
    with database.begin() as connection:
        _check_new(connection, file_hash)
    source = _Source(paths, dialects, provider)
    with Sums() as sums:
        reading = _read(source, sums, progress)
        with database.begin() as connection:
            connection.execute(statements.LOCK)
            _check_new(connection, file_hash)
            return _store(connection, source, reading, sums, file_hash)


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
        self.paths = paths
        self._dialects = dialects
        self.provider = provider or _provider_of(paths[0], dialects)
        self._dialect = dialects[self.provider]

    def charges(self) -> Iterator[tuple[Path, int, Charge]]:
        """Raises InvalidFile."""
        extra = () if self._dialect.usd_cost is None else (self._dialect.usd_cost,)
        for path in self.paths:
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


def _read(source: _Source, sums: Sums, progress: Callable[[int], None]) -> _Reading:
    """Reads all lines, outside a transaction: a month of a large account takes minutes. Raises InvalidFile."""
    reading: _Reading | None = None
    for path, line, charge in source.charges():
        reading = reading or _Reading(charge.month)
        if charge.month != reading.month:
            detail = f"BillingPeriodStart is in {charge.month:%Y-%m}, and in {reading.month:%Y-%m} on the lines before"
            raise InvalidFile(path, line, f"{detail}: import one month at a time")
        reading.count(charge)
        if charge.is_relevant:
            sums.add(charge)
        if reading.lines % _TICK == 0:
            progress(reading.lines)
    if reading is None:
        raise InvalidFile(source.paths[0], 1, "has no lines of charges")
    progress(reading.lines)
    return reading


def _store(connection: Connection, source: _Source, reading: _Reading, sums: Sums, file_hash: bytes) -> ImportSummary:
    import_id, accounts = new_id("import"), sorted(reading.accounts)
    file_name = ", ".join(path.name for path in source.paths)
    provider, month = source.provider, reading.month
    about = {"id": import_id, "file_name": file_name, "file_hash": file_hash, "provider": provider, "month": month}
    days = (
        {} if reading.first_day > reading.last_day else {"first_day": reading.first_day, "last_day": reading.last_day}
    )
    connection.execute(statements.add({**about, **days, "billing_accounts": accounts, "lines": reading.lines}))
    of_import = {"import_id": import_id, "provider": provider}
    for rows in sums.batches():
        connection.execute(statements.ADD_LINES, [{**of_import, **row} for row in rows])
    of_month: dict[str, Any] = {"provider": provider, "month": month, "accounts": accounts}
    shrunk = tuple(_shrunk(connection.execute(*statements.coverage(import_id, **of_month)).all()))
    replaced = connection.execute(*statements.replace_earlier(import_id, **of_month)).all()
    totals = connection.execute(*reconciliation.totals(ReconciliationFilter(month=month))).all()
    (own,) = [row for row in connection.execute(*reconciliation.count_unlisted(month)).all() if row.id == import_id]
    done = ImportSummary(
        provider=provider,
        month=month,
        lines=reading.lines,
        stored=reading.stored,
        replaced=len(replaced),
        unlisted=own.resources,
        unlisted_cost=own.cost,
        gpulease_only=sum(row.gpulease_only for row in totals),
        shrunk=shrunk,
    )
    connection.execute(audit.append(_audited(import_id, file_name, done)))
    return done


def _shrunk(rows: Sequence[Any]) -> Iterator[str]:
    """`rows`: of `statements.coverage`."""
    after = {row.billing_account: row for row in rows if row.is_new}
    for before in (row for row in rows if not row.is_new):
        new = after.get(before.billing_account)
        charges, days = (0, 0) if new is None else (new.charges, new.days)
        if charges < before.charges or days < before.days:
            yield (
                f"{before.billing_account}: {charges} charges on {days} days replace "
                f"{before.charges} charges on {before.days} days"
            )


def _audited(import_id: str, file_name: str, done: ImportSummary) -> dict[str, Any]:
    counts = {"lines": done.lines, "unlisted_resources": done.unlisted, "unlisted_cost": str(done.unlisted_cost)}
    return {
        "id": new_id("audit"),
        "principal": "system",
        "role": "system",
        "action": "invoice.import",
        "target": import_id,
        "after": {"file": file_name, "provider": done.provider, "month": f"{done.month:%Y-%m}", **counts},
    }
