"""Renders responses: JSON or CSV for programs, Rich tables for people."""

import json
import os
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from decimal import ROUND_CEILING, ROUND_HALF_EVEN, Decimal, InvalidOperation
from typing import Any, Literal

from rich.console import Console
from rich.table import Table
from rich.text import Text

from app.cli.errors import Json
from app.cli.render import times

Format = Literal["table", "json", "csv"]


@dataclass(frozen=True)
class DualValue:
    """A value with two forms: relative time for people, the exact time for programs."""

    for_people: Callable[[Json], object]
    raw: str | Callable[[Json], object]
    "Dotted path into the API's response, or a function of it."


ValueSource = str | Callable[[Json], object] | DualValue
"The source of a value: a dotted path into the document, or a function of it."
Columns = Sequence[tuple[str, ValueSource]]

_PIPE_WIDTH = 1000
_NOTHING = "-"
_DECIMALS = ((Decimal("0.01"), Decimal("0.000001")), (Decimal(10), Decimal("0.0001")))
"Amounts below the first have the decimals of the second; others have two."


def console(*, wide: bool = False) -> Console:
    """Standard output: as wide as the terminal, and never wrapped in a pipe or file, or with `wide`."""
    narrow = not wide and (sys.stdout.isatty() or "COLUMNS" in os.environ)
    return Console(highlight=False, markup=False, emoji=False, width=None if narrow else _PIPE_WIDTH)


def write_json(document: Json) -> None:
    """One document, indented."""
    sys.stdout.write(json.dumps(document, indent=2, ensure_ascii=False) + "\n")


def write_json_line(document: Json) -> None:
    """One document on one line, flushed immediately."""
    sys.stdout.write(json.dumps(document, ensure_ascii=False) + "\n")
    sys.stdout.flush()


def at(document: object, path: str) -> Any:
    """The value at a dotted path. None if any part of the path is null or missing."""
    for part in path.split("."):
        document = document.get(part) if isinstance(document, dict) else None
    return document


def printable(text: str) -> str:
    """Text without control characters. Other people choose names, and names must not move the cursor."""
    return "".join(letter if letter.isprintable() or letter == "\n" else "\N{REPLACEMENT CHARACTER}" for letter in text)


def words(value: object) -> str:
    """Any JSON value in a form for people: relative times, joined lists."""
    if value is None or value in ("", [], {}):
        return _NOTHING
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, dict):
        return ", ".join(f"{name}={words(inner)}" for name, inner in value.items())
    if isinstance(value, list):
        return ", ".join(words(inner) for inner in value)
    return str(value)


def when(path: str) -> ValueSource:
    """A column's format: the time at `path`, relative to now."""
    return DualValue(lambda document: since(at(document, path)), path)


def since(text: object) -> str | None:
    """An API time relative to now, such as `in 3 h 58 min`. None without a time."""
    moment = times.parse_time(text) if isinstance(text, str) else None
    return times.relative(moment, times.now()) if moment else None


def details(rows: Iterable[tuple[str, object]]) -> Table:
    """Names and values of one resource. Rows without a value are omitted."""
    result = Table.grid(padding=(0, 2))
    result.add_column(style="dim", no_wrap=True)
    result.add_column(overflow="fold")
    for name, value in rows:
        if value not in (None, "", [], {}):
            result.add_row(Text(name), cell(value))
    return result


def fields(document: Json) -> Table:
    """Any document, for responses that may grow: nested objects indented, lists of objects as lines."""
    return details(_flat(document))


def cell(value: object) -> Text:
    """A value as text that Rich takes literally."""
    return value if isinstance(value, Text) else Text(printable(words(value)))


def price(path: str) -> ValueSource:
    """A column's format: the amount at `path` as `rounded` shows it."""
    return DualValue(lambda document: rounded(at(document, path)), path)


def rounded(amount: object, *, up: bool = False) -> str | None:
    """`21.96`, `0.4326` or `0.001096` for a decimal string of the API: smaller amounts have more decimals.

    None without an amount. `up`: a maximum, never shown lower.
    """
    if amount is None:
        return None
    try:
        number = Decimal(str(amount))
    except InvalidOperation:
        return str(amount)
    last = next((decimals for most, decimals in _DECIMALS if abs(number) < most), Decimal("0.01"))
    short = f"{number.quantize(last, ROUND_CEILING if up else ROUND_HALF_EVEN):f}"
    whole, _, decimals = short.partition(".")
    return f"{whole}.{decimals.rstrip('0').ljust(2, '0')}"


def raw(look: ValueSource, item: Json) -> object:
    """The value as the API returns it."""
    if isinstance(look, DualValue):
        return look.raw(item) if callable(look.raw) else at(item, look.raw)
    return value_for_people(look, item)


def value_for_people(look: ValueSource, item: Json) -> object:
    """The value in its form for people."""
    if isinstance(look, DualValue):
        return look.for_people(item)
    return at(item, look) if isinstance(look, str) else look(item)


def _flat(document: Mapping[str, object], indent: str = "") -> Iterable[tuple[str, object]]:
    for name, value in document.items():
        title = indent + name.replace("_", " ")
        if isinstance(value, dict) and value:
            yield title, " "
            yield from _flat(value, indent + "  ")
        elif isinstance(value, list) and value and isinstance(value[0], dict):
            yield title, "\n".join(words(entry) for entry in value)
        else:
            yield title, _timed(name, value)


def _timed(name: str, value: object) -> object:
    relative = since(value) if name.endswith("_at") else None
    return f"{value} ({relative})" if relative else words(value)
