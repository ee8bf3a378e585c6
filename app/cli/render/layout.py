"""Fits a table to the terminal: ids are shortened, then columns of low priority are left out. No cell is cut."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

from rich.cells import cell_len
from rich.console import Console, ConsoleOptions, RenderResult
from rich.table import Table
from rich.text import Text

from app.cli.errors import Json
from app.cli.render.output import Columns, ValueSource, cell, value_for_people

_GAP = 2
"Blanks between two columns of a table."
_ID = re.compile(r"([a-z]+_)[0-9a-z]{18}([0-9a-z]{8})")
"The last eight characters of an id are random. The first ones are the time, equal for ids of one hour."


def short_id(text: str) -> str:
    """`lease_…yemx4c86` for `lease_01m84jncx1es4vd0pkyemx4c86`. Other text stays unchanged."""
    return _ID.sub(r"\1…\2", text)


@dataclass(frozen=True)
class Fit:
    """The columns that fit, with their widths, and whether ids are shortened."""

    widths: Mapping[str, int]
    short_ids: bool


@dataclass(frozen=True)
class Layout:
    """How a table becomes narrower.

    `priority`: titles of columns, the most important first. The others follow in the order of the table.
    `wrap`: columns that may wrap, with their least width. `right`: columns of numbers.
    """

    priority: Sequence[str] = ()
    wrap: Mapping[str, int] = field(default_factory=dict)
    right: frozenset[str] = frozenset()

    def fit(self, columns: Columns, items: Sequence[Json], width: int) -> Fit:
        """The columns that fit into `width` characters. At least one column stays.

        Columns that may wrap share the remaining room, the most important first.
        """
        cells = {title: [_plain(look, item) for item in items] for title, look in columns}
        titles = [*self.priority, *(title for title in cells if title not in self.priority)]
        natural = {title: _natural(title, cells[title]) for title in cells}
        needed = self._least(natural)
        short_ids = _total(needed, titles) > width
        if short_ids:
            natural = {title: _natural(title, map(short_id, cells[title])) for title in cells}
            needed = self._least(natural)
        while len(titles) > 1 and _total(needed, titles) > width:
            titles.pop()
        for title in titles:
            room = max(0, width - _total(needed, titles))
            needed[title] += min(room, natural[title] - needed[title])
        return Fit({title: min(needed[title], width) for title in needed if title in titles}, short_ids)

    def _least(self, natural: Mapping[str, int]) -> dict[str, int]:
        return {title: min(full, max(self.wrap.get(title, full), cell_len(title))) for title, full in natural.items()}


@dataclass(frozen=True)
class FittedTable:
    """A table that fits the space in which Rich draws it."""

    columns: Columns
    items: Sequence[Json]
    layout: Layout

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        yield self.drawn(options.max_width)

    def hidden(self, width: int) -> tuple[str, ...]:
        """The titles of the columns that do not fit."""
        fitting = self.layout.fit(self.columns, self.items, width).widths
        return tuple(title for title, _ in self.columns if title not in fitting)

    def drawn(self, width: int) -> Table:
        """The table with the columns that fit."""
        fit = self.layout.fit(self.columns, self.items, width)
        fitting = [(title, look) for title, look in self.columns if title in fit.widths]
        result = Table(box=None, pad_edge=False, header_style="bold")
        for title, _ in fitting:
            side: Literal["left", "right"] = "right" if title in self.layout.right else "left"
            result.add_column(title, width=fit.widths[title], overflow="fold", justify=side)
        for item in self.items:
            texts = (cell(value_for_people(look, item)) for _, look in fitting)
            result.add_row(*(_shortened(text) if fit.short_ids else text for text in texts))
        return result


def _shortened(text: Text) -> Text:
    short = short_id(text.plain)
    return text if short == text.plain else Text(short, style=text.style)


def _plain(look: ValueSource, item: Json) -> str:
    return cell(value_for_people(look, item)).plain


def _natural(title: str, texts: "Sequence[str] | map[str]") -> int:
    return max([cell_len(title), *(cell_len(line) for text in texts for line in text.splitlines())])


def _total(widths: Mapping[str, int], titles: Sequence[str]) -> int:
    return sum(widths[title] + _GAP for title in titles) - _GAP
