"""Sums of the charges that matter, one for each day and resource.

There may be more of them than fit in memory, so they move to a temporary file. A sum that is stored in parts is the same sum.
"""

import json
from collections.abc import Iterator
from datetime import date
from decimal import Decimal
from tempfile import TemporaryFile
from types import TracebackType
from typing import Any, Self

from app.domain.invoices import Charge

_MOST = 20_000
"""Sums in memory, and rows of one batch."""
_KEY = ("day", "billing_account", "resource_id", "charge_category", "service", "lease_id", "installation", "is_vm")


class Sums:
    """Collects charges, and then returns their sums. The temporary file goes at the end of the block."""

    def __init__(self) -> None:
        self._file = TemporaryFile("w+", encoding="utf-8")  # noqa: SIM115 - __exit__ closes it
        self._sums: dict[tuple[Any, ...], Decimal] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._file.close()

    def add(self, charge: Charge) -> None:
        """Adds a charge to the sum of its day and resource."""
        key = tuple(getattr(charge, name) for name in _KEY)
        self._sums[key] = self._sums.get(key, Decimal(0)) + charge.cost
        if len(self._sums) >= _MOST:
            self._move()

    def batches(self) -> Iterator[list[dict[str, Any]]]:
        """Rows for `invoice_line`, without their import. Sums of nothing are left out."""
        self._move()
        self._file.seek(0)
        for line in self._file:
            yield [
                {**row, "day": date.fromisoformat(row["day"]), "cost": Decimal(row["cost"])} for row in json.loads(line)
            ]

    def _move(self) -> None:
        rows = [
            {**dict(zip(_KEY, key, strict=True)), "day": key[0].isoformat(), "cost": str(cost)}
            for key, cost in self._sums.items()
            if cost
        ]
        if rows:
            self._file.write(json.dumps(rows) + "\n")
        self._sums.clear()
