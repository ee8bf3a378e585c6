"""The page of limits names every table of tenants, and its numbers are those of the code."""

import importlib
import re

from app.db.schema import tables
from tests.house.sources import ROOT

PAGE = (ROOT / "docs" / "limits.md").read_text(encoding="utf-8")
NUMBER = re.compile(r"([\d,]+) \(`(app(?:\.\w+)+)\.([A-Z_]+)`\)")


def test_every_table_of_tenants_has_a_row() -> None:
    rows = re.findall(r"^\| `(\w+)` \|", PAGE, re.MULTILINE)
    expected = [table.name for table in tables.lease.metadata.sorted_tables if "tenant_id" in table.c]
    assert sorted(rows) == sorted(expected)


def test_numbers_are_the_constants_of_the_code() -> None:
    numbers = NUMBER.findall(PAGE)
    different = [
        f"{module}.{name}: {number}"
        for number, module, name in numbers
        if getattr(importlib.import_module(module), name) != int(number.replace(",", ""))
    ]
    assert numbers
    assert different == []
