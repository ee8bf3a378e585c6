"""How a long run reports: its evidence as JSON in a file, and short tables for people on standard output."""

import json
import os
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import rich.table
from rich.console import Console
from rich.text import Text

from bench.report import commit, machine

FOLDER = Path("reports")
"""Where runs write their evidence unless the caller names another file. Git ignores this folder."""
_PIPE_WIDTH = 120


@dataclass(frozen=True, slots=True, kw_only=True)
class Table:
    """One row for each sequence of cells. Numbers are aligned right, with separated thousands and two decimals of a float.

    A table whose column names are all empty has no header.
    """

    title: str
    columns: Sequence[str]
    rows: Sequence[Sequence[object]]


def write_evidence(path: Path, evidence: Mapping[str, Any]) -> None:
    """Writes `evidence` with the machine, the commit and the time of writing. A reader never sees half of the file."""
    path.parent.mkdir(parents=True, exist_ok=True)
    written_at = datetime.fromtimestamp(time.time(), UTC).isoformat(timespec="seconds")
    document = {"machine": machine(), "commit": commit(), "written_at": written_at, **evidence}
    unfinished = path.with_name(path.name + ".new")
    unfinished.write_text(json.dumps(document, indent=1, default=str) + "\n", encoding="utf-8")
    unfinished.replace(path)


def print_tables(*tables: Table) -> None:
    """Prints each table. A table is as wide as the terminal, and at most 120 characters wide in a file."""
    narrow = sys.stdout.isatty() or "COLUMNS" in os.environ
    console = Console(highlight=False, markup=False, emoji=False, width=None if narrow else _PIPE_WIDTH)
    for table in tables:
        with console.capture() as capture:
            console.print(_rendered(table))
        lines = (line.rstrip() for line in capture.get().splitlines())
        sys.stdout.write("\n".join(lines) + "\n\n")


def report(path: Path, evidence: Mapping[str, Any], *tables: Table) -> None:
    """Writes the evidence, prints the tables and names the file."""
    write_evidence(path, evidence)
    sys.stdout.write("\n")
    print_tables(*tables)
    sys.stdout.write(f"Evidence: {path}\n")
    sys.stdout.flush()


def _rendered(table: Table) -> rich.table.Table:
    rendered = rich.table.Table(
        title=table.title,
        title_justify="left",
        title_style="bold",
        box=None,
        pad_edge=False,
        header_style="bold",
        show_header=any(table.columns),
    )
    for number, name in enumerate(table.columns):
        numeric = bool(table.rows) and all(_is_number(row[number]) or row[number] is None for row in table.rows)
        rendered.add_column(name, justify="right" if numeric else "left", overflow="fold")
    for row in table.rows:
        rendered.add_row(*(Text(_text(cell)) for cell in row))
    return rendered


def _is_number(cell: object) -> bool:
    return isinstance(cell, int | float) and not isinstance(cell, bool)


def _text(cell: object) -> str:
    if cell is None:
        return "-"
    if isinstance(cell, bool):
        return "yes" if cell else "no"
    if isinstance(cell, float):
        return f"{cell:,.2f}"
    return f"{cell:,}" if isinstance(cell, int) else str(cell)
