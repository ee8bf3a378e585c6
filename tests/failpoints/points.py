"""The names of all failpoints, read from the program's own source, so that no step can be without.

`send.send:launch:before` is the point before the call `launch` of the function `send` in the module `workers.lifecycle.steps.send`;
`send._check:send:after` the one after the commit of the statement `send` in its function `_check`. A transaction of
several statements is called `commit`.
"""

import ast
import importlib
import pkgutil
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from types import FrameType, ModuleType
from typing import Any, get_args, get_origin

from sqlalchemy import Select, TextClause

from app.db.core.prepared import Bound
from workers.providers.ports import CALLS

BEFORE, AFTER = "before", "after"

STEPS = "workers.lifecycle.steps"
_BATCHES = "workers.lifecycle.batches"
_BESIDE_THE_STEPS = (
    "workers.lifecycle.reconciler",
    "workers.lifecycle.sweeper",
    "workers.observation.watch",
    "workers.observation.inventory",
    "workers.observation.listings",
    "workers.observation.leftovers",
    "workers.observation.batch_slots",
    "workers.observation.slot_labels",
    "workers.groups.coordinator",
    "workers.runtime.accounts",
    "workers.jobs.account_checks",
    "workers.jobs.volumes",
    "workers.observation.volumes",
)
_SHARED = f"{STEPS}.context"
"""Its transactions belong to the steps that ask for them."""
_BETWEEN = (
    "tests.failpoints.wrappers",
    "workers.runtime.metered",
    "workers.runtime.verified",
    "contextlib",
    _SHARED,
)
"""What may stand between a commit or call and whoever asked for it."""
_SINGLE = ("run", "first", "all")
_BLOCKS = ("begin", "writing_attempts")
OF_VMS = frozenset(name for name, call in CALLS.items() if call.of_vms)
"""The calls to a provider by which VMs are made, seen, changed and ended."""


@dataclass(frozen=True, slots=True)
class Site:
    """A place in the source that commits or calls. `point` is its name without before or after; None: it only reads."""

    file: str
    first: int
    last: int
    point: str | None


class Sites:
    """All sites of the protocol's modules. `files`: those; `between`: files whose frames are looked through."""

    def __init__(self, sites: Sequence[Site], files: frozenset[str], between: frozenset[str]) -> None:
        self._files = files
        self._between = between
        self._by_file: dict[str, list[Site]] = {}
        for site in sites:
            self._by_file.setdefault(site.file, []).append(site)

    def __iter__(self) -> Iterator[Site]:
        return (site for some in self._by_file.values() for site in some)

    def find(self, frame: FrameType | None) -> str | None:
        """The point at which this frame's caller stands; None: outside of the protocol, or a mere read.

        Raises LookupError for a commit or call of the protocol that the source's reading has missed.
        """
        while frame is not None and frame.f_code.co_filename in self._between:
            frame = frame.f_back
        if frame is None or frame.f_code.co_filename not in self._files:
            return None
        return self._at(frame.f_code.co_filename, frame.f_lineno)

    def _at(self, file: str, line: int) -> str | None:
        there = [site for site in self._by_file.get(file, ()) if site.first <= line <= site.last]
        if not there:
            raise LookupError(f"no failpoint knows {file}:{line}")
        return min(there, key=lambda site: site.last - site.first).point


def names() -> list[str]:
    """Every failpoint."""
    points = sorted({site.point for site in read_sites() if site.point is not None})
    return [f"{point}:{when}" for point in points for when in (BEFORE, AFTER)]


@cache
def read_sites() -> Sites:
    """Reads the source once in a process."""
    modules = [importlib.import_module(name) for name in _modules()]
    files = frozenset(str(module.__file__) for module in modules)
    between = frozenset(str(importlib.import_module(name).__file__) for name in _BETWEEN)
    return Sites([site for module in modules for site in _Reader(module).sites()], files, between)


def _modules() -> Iterator[str]:
    for room in (STEPS, _BATCHES):
        for module in pkgutil.iter_modules(importlib.import_module(room).__path__, f"{room}."):
            if module.name != _SHARED:
                yield module.name
    yield from _BESIDE_THE_STEPS


class _Reader(ast.NodeVisitor):
    """Finds the sites of one module."""

    def __init__(self, module: ModuleType) -> None:
        self._module = module
        self._file = str(module.__file__)
        self._sites: list[Site] = []
        self._within: list[str] = [
            module.__name__.removeprefix(f"{STEPS}.").removeprefix("workers.lifecycle.").removeprefix("workers.")
        ]
        self._statements: dict[str, ast.expr] = {}

    def sites(self) -> list[Site]:
        self.visit(ast.parse(Path(self._file).read_text(encoding="utf-8")))
        return self._sites

    def visit_ClassDef(self, node: ast.ClassDef) -> None:
        self._inside(node)

    def visit_FunctionDef(self, node: ast.FunctionDef) -> None:
        self._inside(node)

    def visit_Assign(self, node: ast.Assign) -> None:
        for target in node.targets:
            if isinstance(target, ast.Name):
                self._statements[target.id] = node.value
        self.generic_visit(node)

    def visit_Call(self, node: ast.Call) -> None:
        what = _what(node)
        if what is not None:
            only_reads = what in _SINGLE and self._only_reads(node.args[0])
            name = self._statement(node.args[0]) if what in _SINGLE else "commit" if what in _BLOCKS else what
            point = None if only_reads else f"{'.'.join(self._within)}:{name}"
            self._sites.append(Site(self._file, node.lineno, node.end_lineno or node.lineno, point))
        self.generic_visit(node)

    def _inside(self, node: ast.ClassDef | ast.FunctionDef) -> None:
        self._within.append(node.name)
        self.generic_visit(node)
        self._within.pop()

    def _built_by(self, statement: ast.expr) -> ast.expr:
        """The call or constant that a statement comes from, also over a variable."""
        if isinstance(statement, ast.Name) and statement.id in self._statements:
            return self._statements[statement.id]
        return statement

    def _statement(self, statement: ast.expr) -> str:
        built = self._built_by(statement)
        name = _tail(built)
        if name == "statement" and isinstance(built, ast.Call) and isinstance(built.func, ast.Attribute):
            return _tail(built.func.value)
        return name

    def _only_reads(self, statement: ast.expr) -> bool:
        """Constants and texts read; of anything else its builder's annotation says whether it does."""
        built = self._built_by(statement)
        if not isinstance(built, ast.Call):
            return _tail(built).isupper()
        builder: Any = self._resolve(built.func)
        built_type = getattr(builder, "__annotations__", {}).get("return")
        if get_origin(built_type) is Bound:
            (built_type,) = get_args(built_type)
        return (get_origin(built_type) or built_type) in (Select, TextClause)

    def _resolve(self, node: ast.expr) -> Any:
        if isinstance(node, ast.Name):
            return getattr(self._module, node.id, None)
        return getattr(self._resolve(node.value), node.attr, None) if isinstance(node, ast.Attribute) else None


def _what(call: ast.Call) -> str | None:
    """`run`, `begin`, `launch` and so on; None for any other call."""
    if not isinstance(call.func, ast.Attribute):
        return None
    what, asked = call.func.attr, _tail(call.func.value)
    if what in ("writing_attempts", "hurry_watch"):
        return what
    if what in (*_SINGLE, *_BLOCKS) and asked in ("database", "_database"):
        return what
    return what if what in OF_VMS and asked in ("provider", "_provider") else None


def _tail(node: ast.expr) -> str:
    """The last name of an expression: `database` of `ctx.runtime.database`, `send` of `attempts.send(...)`."""
    match node:
        case ast.Name():
            return node.id
        case ast.Attribute():
            return node.attr
        case ast.Call():
            return _tail(node.func)
        case _:
            return ""
