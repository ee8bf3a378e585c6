"""Modules stay small enough to read, and none needs another one that needs it back."""

import ast
from collections.abc import Iterator, Mapping
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

from tests.durations import SECONDS
from tests.house.sources import ROOT, statements, tracked_files

LONGEST_MODULE = 300
LONGEST_FUNCTION = 40

LONGER: Mapping[str, str] = {
    "app/agent/gpulease_agent.py": "a VM gets it as one file, and reads it without the rest of gpulease",
    "app/api/routes/offerings.py": "the models of one page of offerings and of a plan stand beside it",
    "app/db/tenancy/commitments.py": "the rule of one claim, and each statement that applies it",
    "app/services/errors.py": "one class for each error code",
    "app/domain/events.py": "one class for each type of event",
    "app/settings/settings.py": "one setting after the other",
    "workers/metrics.py:__init__": "one metric after the other",
    "app/api/schemas/ops.py": "one model for each thing that operators see",
    "app/db/fleet/inventory.py": "statements that observe many VMs at once; SQL is long",
    "app/db/leases/attempts.py": "the three kinds of writers of an attempt stand side by side",
    "workers/providers/types.py": "the types that every adapter takes and returns stand together",
    "workers/providers/azure/errors.py": "the whole table of Azure's codes, and the rules for reading it",
    "app/domain/lifecycle.py": "the protocol's decisions, read as a whole",
    "cloudsim/world/core.py": "the one state of all simulated clouds",
    "workers/observation/inventory.py": "one cycle of observation, in the order in which it happens",
    "app/services/container.py:build": "one service after the other",
    "cloudsim/ec2/orders.py:read_order": "one field of RunInstances after the other",
}
"""What is longer all the same, and why."""


Source = tuple[str, ast.Module, int]
"""(path, syntax tree, lines)."""


@pytest.fixture(scope="module")
def sources() -> list[Source]:
    """Every module of the program and of the simulator."""
    texts = {
        name: path.read_text(encoding="utf-8")
        for path in tracked_files()
        if path.suffix == ".py" and (name := str(path.relative_to(ROOT))).startswith(("app/", "workers/", "cloudsim/"))
    }
    return [(name, ast.parse(text), text.count("\n")) for name, text in texts.items()]


def test_the_files_that_take_long_exist() -> None:
    assert [name for name in SECONDS if not (ROOT / name).is_file()] == []


def test_modules_and_functions_are_short_or_say_why_not(sources: list[Source]) -> None:
    longer = set()
    for name, tree, lines in sources:
        if lines > LONGEST_MODULE:
            longer.add(name)
        for node in statements(tree):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                length = (node.end_lineno or 0) - node.lineno + 1
                longer |= {f"{name}:{node.name}"} if length > LONGEST_FUNCTION else set()
    assert longer == LONGER.keys()


def test_no_import_leads_back(sources: list[Source]) -> None:
    """Imports within functions and for type checkers alone do not count."""
    modules = {name.removesuffix(".py").replace("/", ".").removesuffix(".__init__") for name, *_ in sources}
    graph: dict[str, set[str]] = {}
    for name, tree, _ in sources:
        module = name.removesuffix(".py").replace("/", ".").removesuffix(".__init__")
        graph[module] = {found for found in _imported(tree, modules) if found != module}
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        raise AssertionError(" → ".join(error.args[1])) from None


def _imported(tree: ast.Module, modules: set[str]) -> Iterator[str]:
    for node in tree.body:
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names if alias.name in modules)
        elif isinstance(node, ast.ImportFrom) and node.module is not None:
            submodules = {f"{node.module}.{alias.name}" for alias in node.names} & modules
            yield from submodules
            if node.module in modules and len(submodules) < len(node.names):
                yield node.module


def test_the_list_names_files_that_exist() -> None:
    assert [name for name in LONGER if not Path(ROOT, name.partition(":")[0]).is_file()] == []
