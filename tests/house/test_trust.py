"""The bill of evidence in docs/trust.md names what changes facts that all tenants share, and the code changes no more."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from app.db.schema import tables
from app.domain.cool_off import FORGEABLE, CoolOffReason
from tests.house.sources import ROOT, statements

STATEMENTS = {
    ("app.db.fleet", "offering_stats", "cool_off"): "cool-off",
    ("app.db.fleet", "offering_stats", "launched"): "success rate",
    ("app.db.fleet", "offering_stats", "became_ready"): "time to ready",
    ("app.db.fleet", "bad_gpus", "remember"): "bad GPU",
    ("app.db.fleet", "gpu_benchmarks", "insertion"): "benchmark",
    ("app.db.operations", "brakes", "count_cycle"): "mass loss",
    ("app.db.fleet", "accounts", "block"): "account set aside",
    ("app.db.operations", "brakes", "set_hold"): "hold",
}
"""The statements that change a fact: package, module and function."""

WRITING = {
    "app/db/fleet/accounts.py": "the configuration, what the cloud answers, and `block`",
    "app/db/fleet/bad_gpus.py": "`remember`, and `forget` of an operator",
    "app/db/fleet/cordons.py": "an operator's cordon",
    "app/db/fleet/gpu_benchmarks.py": "`insertion`",
    "app/db/fleet/inventory.py": "what a listing shows",
    "app/db/fleet/offering_stats.py": "`cool_off`, `launched` and `became_ready`",
    "app/db/fleet/offerings.py": "the catalogue and prices",
    "app/db/fleet/reservations.py": "what the configuration names and the cloud reports",
    "app/db/operations/brakes.py": "`count_cycle` and `set_hold`",
    "app/db/operations/purge.py": "old rows",
}
"""The modules that write tables with such facts, and what."""
_TABLES = "table|offering|reservation|bad_gpu|gpu_benchmark|account_region"
_WRITE = re.compile(rf"\b(?:update|insert|delete)\((?:{_TABLES})\b|\b(?:UPDATE|INTO|DELETE FROM) (?:{_TABLES})\b")


def table_of(heading: str) -> list[list[str]]:
    """The cells of the first table below a heading of the page, without its head."""
    page = (ROOT / "docs" / "trust.md").read_text(encoding="utf-8")
    lines = page.split(f"# {heading}\n", 1)[1].splitlines()
    first = next(number for number, line in enumerate(lines) if line.startswith("|"))
    rows = []
    for line in lines[first + 2 :]:
        if not line.startswith("|"):
            break
        rows.append([cell.strip() for cell in line.strip("|").split("|")])
    return rows


def sources() -> Iterator[Path]:
    for folder in ("app", "workers"):
        yield from sorted((ROOT / folder).rglob("*.py"))


def callers() -> dict[str, set[str]]:
    """By fact, the functions that execute its statements, as `module.function`."""
    found: dict[str, set[str]] = {fact: set() for fact in STATEMENTS.values()}
    names = {function for _, _, function in STATEMENTS}
    for path in sources():
        text = path.read_text(encoding="utf-8")
        if not any(name in text for name in names):
            continue
        tree = ast.parse(text)
        imported = {
            (alias.asname or alias.name): (node.module, alias.name)
            for node in statements(tree)
            if isinstance(node, ast.ImportFrom) and node.module
            for alias in node.names
        }
        for function in (node for node in statements(tree) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)):
            for call in (node for node in ast.walk(function) if isinstance(node, ast.Call)):
                for (package, module, name), fact in STATEMENTS.items():
                    if _calls(call.func, imported, package, module, name, here=path):
                        found[fact].add(f"{path.stem}.{function.name}")
    return found


def _calls(
    called: ast.expr, imported: dict[str, tuple[str, str]], package: str, module: str, name: str, *, here: Path
) -> bool:
    if isinstance(called, ast.Attribute) and isinstance(called.value, ast.Name):
        return called.attr == name and imported.get(called.value.id) == (package, module)
    if not isinstance(called, ast.Name):
        return False
    own = here == ROOT / Path(*package.split("."), f"{module}.py") and called.id == name
    return own or imported.get(called.id) == (f"{package}.{module}", name)


def test_the_bill_of_evidence_names_what_changes_each_fact() -> None:
    rows = {row[0]: set(re.findall(r"`(\w+\.\w+)`", row[2])) for row in table_of("Bill of evidence")}
    assert rows == callers()


def test_each_fact_is_stored_where_the_page_says() -> None:
    columns = {name: re.findall(r"`(\w+)\.(\w+|\*)`", places) for name, places, *_ in table_of("Bill of evidence")}
    assert all(columns.values())
    for table, column in (place for places in columns.values() for place in places):
        assert column == "*" or column in getattr(tables, table).c, f"{table}.{column}"


def test_no_other_module_writes_the_tables_of_these_facts() -> None:
    found = {str(path.relative_to(ROOT)) for path in sources() if _WRITE.search(path.read_text(encoding="utf-8"))}
    assert found == set(WRITING)


@pytest.mark.parametrize("reason", CoolOffReason)
def test_a_reason_of_a_cool_off_that_a_vm_can_bring_about_needs_two_tenants(reason: CoolOffReason) -> None:
    rows = {row[0].strip("`"): row[1:] for row in table_of("Reasons of a cool-off")}
    assert rows.keys() == {str(one) for one in CoolOffReason}
    source, opinion = rows[reason]
    needs = reason in FORGEABLE
    assert (source.startswith("a VM"), opinion.startswith("two tenants")) == (needs, needs)
    assert source.startswith(("a VM:", "the cloud:"))
