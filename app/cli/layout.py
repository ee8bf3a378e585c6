"""Fits a table to the terminal: columns of low priority are left out before any cell becomes unreadable."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from rich.cells import cell_len
from rich.table import Table

from app.cli.errors import Json
from app.cli.output import Columns, Look, cell, shown, table

_GAP = 2
"Blanks between two columns of a table."


@dataclass(frozen=True)
class Layout:
    """`priority`: titles of columns, the most important first. `wrap`: columns that may wrap, with their least width."""

    priority: Sequence[str]
    wrap: Mapping[str, int] = field(default_factory=dict)

    def fit(self, columns: Columns, items: Sequence[Json], width: int) -> dict[str, int]:
        """The columns that fit into `width` characters, with their widths. At least one column stays.

        Columns that may wrap share the remaining room, the most important first.
        """
        natural = {title: _natural(title, look, items) for title, look in columns}
        needed = {title: min(full, max(self.wrap.get(title, full), cell_len(title))) for title, full in natural.items()}
        kept = list(self.priority)
        while len(kept) > 1 and _total(needed, kept) > width:
            kept.pop()
        for title in kept:
            room = max(0, width - _total(needed, kept))
            needed[title] += min(room, natural[title] - needed[title])
        return {title: needed[title] for title in needed if title in kept}


def _natural(title: str, look: Look, items: Sequence[Json]) -> int:
    lines = [line for item in items for line in cell(shown(look, item)).plain.splitlines()]
    return max([cell_len(title), *map(cell_len, lines)])


def _total(widths: Mapping[str, int], titles: Sequence[str]) -> int:
    return sum(widths[title] + _GAP for title in titles) - _GAP


def fitted_table(
    columns: Columns, items: Sequence[Json], layout: Layout | None, width: int
) -> tuple[Table, tuple[str, ...]]:
    """The table, and the titles of the columns that do not fit. Without a layout, every column is shown."""
    if layout is None:
        return table(columns, items), ()
    widths = layout.fit(columns, items, width)
    kept = [(title, look) for title, look in columns if title in widths]
    wrap = {title: widths[title] for title in widths if title in layout.wrap}
    return table(kept, items, wrap=wrap), tuple(title for title, _ in columns if title not in widths)
