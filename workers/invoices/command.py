"""`gpulease-server reconcile`: imports a provider's FOCUS file."""

import argparse
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from sqlalchemy.exc import DBAPIError

from app.domain.money import format_money
from app.settings import load_settings
from app.settings.errors import StartupError
from app.settings.providers import providers
from workers.invoices.files import InvalidFile
from workers.invoices.importing import AlreadyImported, ImportSummary, import_files
from workers.runtime.database import WorkerDatabase

_PROGRESS_SECONDS = 2.0


def main(arguments: Sequence[str]) -> int:
    """0 when the file is imported, 1 when it also shows charges without an owner, 2 with one line on stderr otherwise."""
    options = _options(arguments)
    dialects = {name: info.focus for name, info in providers().items() if info.focus is not None}
    try:
        settings = load_settings()
        database = WorkerDatabase(settings.database_url, pool_size=1)
        try:
            done = import_files(database, options.file, dialects, provider=options.provider, progress=_Progress().show)
        finally:
            database.close()
    except (StartupError, InvalidFile, AlreadyImported, OSError) as error:
        return _refuse(str(error))
    except DBAPIError as error:
        return _refuse(f"the database does not answer: {str(error.orig).strip().partition(chr(10))[0]}")
    sys.stdout.write(report(done))
    return 1 if done.unlisted else 0


def _options(arguments: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="gpulease-server reconcile",
        description="Import what a provider charged: its own export in the FOCUS format, of one month.",
        epilog=(
            "Exit codes: 0 imported, 1 imported and resources of gpulease are charged that belong to no lease or volume, "
            "2 nothing imported. docs/howto/reconcile.md describes how to export the file."
        ),
    )
    parser.add_argument(
        "--file",
        type=Path,
        action="append",
        required=True,
        metavar="EXPORT",
        help="CSV, gzipped CSV or Parquet; name each part of an export that the provider has split",
    )
    parser.add_argument(
        "--provider",
        choices=[name for name, info in providers().items() if info.focus is not None],
        help="default: as the file's column ProviderName says",
    )
    return parser.parse_args(arguments)


def _refuse(detail: str) -> int:
    sys.stderr.write(f"gpulease-server reconcile: {detail}\n")
    return 2


def report(done: ImportSummary) -> str:
    """What an import did, in lines for an operator."""
    lines = [
        f"imported {done.lines} lines of {done.provider} for {done.month:%Y-%m}; {done.stored} of them matter to gpulease",
    ]
    if done.replaced:
        lines.append("earlier lines of the same billing accounts and month are replaced")
    lines += [f"WARNING: {sentence}; name all parts of an export in one import" for sentence in done.shrunk]
    if done.gpulease_only:
        lines.append(f"{done.gpulease_only} estimates of a day have no charge")
    if done.unlisted:
        cost = format_money(done.unlisted_cost)
        lines.append(
            f"ALARM: {done.unlisted} resources of this installation belong to no lease or volume and cost {cost} USD"
        )
    lines.append(f"GET /v1/ops/reconciliation?month={done.month:%Y-%m} shows the differences")
    return "\n".join(lines) + "\n"


class _Progress:
    """A line on stderr every two seconds."""

    def __init__(self) -> None:
        self._told_at = time.monotonic()

    def show(self, lines: int) -> None:
        """`lines`: read so far."""
        now = time.monotonic()
        if now - self._told_at >= _PROGRESS_SECONDS:
            self._told_at = now
            sys.stderr.write(f"{lines} lines read\n")
