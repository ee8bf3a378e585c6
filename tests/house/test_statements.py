"""A statement that is given with its parameters is put together once: any other would be compiled at each execution."""

import ast
from collections.abc import Iterator
from pathlib import Path

from tests.house.sources import ROOT

REMEMBERING = {"cache", "lru_cache"}
MADE_AT_IMPORT = {
    "app/db/core/direct.py": "passes statements on",
    "app/db/fleet/offering_stats.py": "has three for each of two tables",
    "app/db/usage/cost_rollup.py": "has some for each length of a step",
}


WRITING_CSV = ("csv.writer(", "csv.DictWriter(", "copy_csv(", "copy_from_query(")
GUARDS = ("app.domain.spreadsheets", "inert_text")
WITHOUT_FOREIGN_TEXT = {
    "app/cli/render/sheet.py": "imports nothing of the program; tests/security/test_hostile_text.py compares the two",
    "app/db/core/engine.py": "passes on what a statement makes",
    "app/services/money/focus.py": "the statement in app/db/usage/focus.py makes the cells",
    "workers/providers/price_list.py": "writes what the adapters' own catalogues name",
}


def changing_statements(path: Path) -> Iterator[str]:
    """Where a function gives `Bound` neither a constant of its module nor the result of a function that remembers it."""
    text = path.read_text(encoding="utf-8")
    if "Bound(" not in text:
        return
    tree = ast.parse(text)
    functions = [node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)]
    remembering = {one.name for one in functions if REMEMBERING & set().union(*map(names, one.decorator_list))}
    for call in {node for function in functions for node in ast.walk(function) if isinstance(node, ast.Call)}:
        if isinstance(call.func, ast.Name) and call.func.id == "Bound":
            statement = call.args[0]
            made = {statement.func} if isinstance(statement, ast.Call) else set()
            constant = all(name.isupper() or name == "locked" for name in names(statement))
            if not constant and not any(names(one) <= remembering for one in made):
                yield f"{path.relative_to(ROOT)}:{call.lineno} {ast.unparse(statement)}"


def names(node: ast.AST) -> set[str]:
    return {one.id for one in ast.walk(node) if isinstance(one, ast.Name)}


def test_statements_with_parameters_are_put_together_once() -> None:
    modules = [path for folder in ("app", "workers") for path in sorted((ROOT / folder).rglob("*.py"))]
    others = [path for path in modules if str(path.relative_to(ROOT)) not in MADE_AT_IMPORT]
    assert [found for path in others for found in changing_statements(path)] == []


def test_what_writes_csv_makes_formulas_text() -> None:
    """A new module that writes CSV takes its cells from `app.domain.spreadsheets`, or says above why it need not."""
    modules = [path for folder in ("app", "workers", "clients") for path in sorted((ROOT / folder).rglob("*.py"))]
    texts = {str(path.relative_to(ROOT)): path.read_text(encoding="utf-8") for path in modules}
    writing = {path for path, text in texts.items() if any(call in text for call in WRITING_CSV)}
    assert {
        path for path in writing if not any(guard in texts[path] for guard in GUARDS)
    } == WITHOUT_FOREIGN_TEXT.keys()
