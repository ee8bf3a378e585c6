"""What the house tests know about the files of the project."""

import ast
import subprocess
from collections.abc import Iterator
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
_HOLD_STATEMENTS = (ast.stmt, ast.ExceptHandler, ast.match_case)


@cache
def tracked_files() -> tuple[Path, ...]:
    """Every file that a clone would have, and those that are about to be added."""
    argv = ["git", "ls-files", "--cached", "--others", "--exclude-standard", "-z"]
    listing = subprocess.run(argv, cwd=ROOT, capture_output=True, text=True, check=True).stdout
    return tuple(ROOT / name for name in listing.split("\0") if name and (ROOT / name).is_file())


def imports_below(folder: str) -> Iterator[tuple[str, str]]:
    """(file, imported module) for every import statement below `folder`, wherever in the file it stands."""
    for path in sorted((ROOT / folder).rglob("*.py")):
        yield from ((str(path.relative_to(ROOT)), name) for name in _imports(path))


@cache
def _imports(path: Path) -> tuple[str, ...]:
    tree = ast.parse(path.read_text(encoding="utf-8"))
    return tuple(name for node in statements(tree) for name in _imported(node))


def statements(tree: ast.Module) -> Iterator[ast.AST]:
    """The module and every statement in it, however deep. Expressions, nine of ten nodes, are not gone through."""
    waiting: list[ast.AST] = [tree]
    while waiting:
        node = waiting.pop()
        yield node
        waiting += (one for one in ast.iter_child_nodes(node) if isinstance(one, _HOLD_STATEMENTS))


def _imported(node: ast.AST) -> list[str]:
    if isinstance(node, ast.Import):
        return [alias.name for alias in node.names]
    if isinstance(node, ast.ImportFrom) and node.module:
        return [node.module, *(f"{node.module}.{alias.name}" for alias in node.names)]
    return []
