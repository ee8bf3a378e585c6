"""Modules and folders stay small enough to read, and none needs another one that needs it back."""

import ast
from collections import Counter
from collections.abc import Iterator, Mapping
from collections.abc import Set as AbstractSet
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

from tests.harness.durations import SECONDS
from tests.house.sources import ROOT, statements, tracked_files

LONGEST_MODULE = 300
LONGEST_FUNCTION = 40
MOST_MODULES = 25

LONGER: Mapping[str, str] = {
    "app/agent/gpulease_agent.py": "a VM gets it as one file, and reads it without the rest of gpulease",
    "app/db/tenancy/commitments.py": "the rule of one claim, and each statement that applies it",
    "app/services/errors.py": "one class for each error code",
    "app/domain/events.py": "one class for each type of event",
    "app/settings/settings.py": "one setting after the other",
    "workers/runtime/metrics.py:__init__": "one metric after the other",
    "app/db/fleet/inventory.py": "statements that observe many VMs at once; SQL is long",
    "app/db/leases/attempts.py": "the three kinds of writers of an attempt stand side by side",
    "workers/providers/ports.py": "the contract of an adapter, read as a whole",
    "workers/providers/types.py": "the types that every adapter takes and returns stand together",
    "workers/providers/azure/errors.py": "the whole table of Azure's codes, and the rules for reading it",
    "app/domain/lifecycle.py": "the protocol's decisions, read as a whole",
    "cloudsim/world/core.py": "the one state of all simulated clouds",
    "app/services/container.py:build": "one service after the other",
    "cloudsim/ec2/create_requests.py:read_order": "one field of RunInstances after the other",
}
"""What is longer all the same, and why."""

LARGER: Mapping[str, str] = {
    "app/api/routes": "a file per noun of the API",
    "app/api/schemas": "a file per noun of the API",
    "app/db/leases": "each statement of a lease stands with its subject; attempts and batches belong to leases",
    "app/domain": "values and rules that all rings share, a file per noun",
    "workers/providers/aws": "the same file names at each provider",
    "workers/providers/azure": "the same file names at each provider",
    "workers/providers/gcp": "the same file names at each provider",
    "cloudsim/ec2": "a file per resource of the protocol",
    "cloudsim/gce": "a file per resource of the protocol",
}
"""Folders with more modules all the same, and why."""


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
    graph = _imports({_module(path): tree for path, tree, _ in sources})
    _in_order(graph)


def test_rooms_import_each_other_in_one_direction(sources: list[Source]) -> None:
    """A room is a folder of a ring. Modules beside the rooms may be above or below them."""
    graph = _imports({_module(path): tree for path, tree, _ in sources})
    folders = {_module(path).rpartition(".")[0] for path, *_ in sources}
    for ring in sorted(folders):
        rooms = {folder for folder in folders if folder.rpartition(".")[0] == ring}
        arrows: dict[str, set[str]] = {room: set() for room in rooms}
        for module, imported in graph.items():
            for here in _rooms(module, rooms):
                arrows[here] |= {room for name in imported for room in _rooms(name, rooms - {here})}
        _in_order(arrows)


def test_a_folder_is_small_or_says_why_not(sources: list[Source]) -> None:
    modules = Counter(path.rpartition("/")[0] for path, *_ in sources if not path.endswith("/__init__.py"))
    assert {folder for folder, count in modules.items() if count > MOST_MODULES} == LARGER.keys()


def _in_order(graph: Mapping[str, AbstractSet[str]]) -> None:
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        raise AssertionError(" → ".join(error.args[1])) from None


def _module(path: str) -> str:
    return path.removesuffix(".py").replace("/", ".").removesuffix(".__init__")


def _rooms(module: str, rooms: AbstractSet[str]) -> list[str]:
    """The room of a module; none for a module outside of these rooms."""
    return [room for room in rooms if module == room or module.startswith(f"{room}.")]


def _imports(trees: Mapping[str, ast.Module]) -> dict[str, set[str]]:
    return {module: set(_imported(tree, trees.keys())) - {module} for module, tree in trees.items()}


def _imported(tree: ast.Module, modules: AbstractSet[str]) -> Iterator[str]:
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


def test_routes_define_no_models(sources: list[Source]) -> None:
    """Models stand in `app/api/schemas`."""
    bases = ("View", "Body", "Page", "BaseModel")
    models = [
        f"{path}: {node.name}"
        for path, tree, _ in sources
        if path.startswith("app/api/routes/")
        for node in tree.body
        if isinstance(node, ast.ClassDef) and any(ast.unparse(base).endswith(bases) for base in node.bases)
    ]
    assert models == []
