"""Responses as CSV (RFC 4180): a header, then one line per item, with the API's own values."""

import csv
import json
import re
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from rich.text import Text

from app.cli.errors import Json
from app.cli.render.output import Columns, printable, raw

_FORMULA = ("=", "+", "-", "@", "\t", "\r")
_NUMBER = re.compile(r"-?\d+(\.\d+)?", re.ASCII)


@dataclass(frozen=True)
class Sheet:
    """The content of one CSV file."""

    columns: Columns
    items: Sequence[Json]


def write(sheet: Sheet) -> None:
    """Writes to standard output. A sheet without columns writes nothing."""
    if not sheet.columns:
        return
    lines = csv.writer(sys.stdout)
    lines.writerow([cell(title) for title, _ in sheet.columns])
    lines.writerows([cell(raw(look, item)) for _, look in sheet.columns] for item in sheet.items)


def one_row(document: Json) -> Sheet:
    """Any document: a column per field, with dotted names for nested fields."""
    return Sheet([(name, name) for name in _names(document)], (document,))


def cell(value: object) -> str:
    """A value as the API returns it: null is empty, lists and objects are JSON.

    Text that a spreadsheet would run as a formula gets a leading apostrophe, because other people choose names.
    """
    text = _text(value)
    harmless = not text.startswith(_FORMULA) or _NUMBER.fullmatch(text)
    return printable(text if harmless else f"'{text}")


def _text(value: object) -> str:
    if value is None:
        return ""
    if isinstance(value, Text):
        return value.plain
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def _names(document: Mapping[str, object], prefix: str = "") -> Iterator[str]:
    for name, value in document.items():
        if isinstance(value, dict) and value:
            yield from _names(value, f"{prefix}{name}.")
        else:
            yield prefix + name
