"""A name means one thing, and stands where it belongs."""

import ast
import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator

from tests.house.sources import ROOT, tracked_files

OTHERS = ("app/api/routes/", "app/api/schemas/", "app/cli/")
"""Models of the HTTP API are named as the API's contract names them. The command line is a program of its own."""


def public_classes() -> dict[str, list[str]]:
    """Name -> the files of `app` and `workers` that define it."""
    found: dict[str, list[str]] = defaultdict(list)
    for path in tracked_files():
        name = str(path.relative_to(ROOT))
        if path.suffix != ".py" or not name.startswith(("app/", "workers/")) or name.startswith(OTHERS):
            continue
        for defines in re.findall(r"^class ([^_\W]\w*)", path.read_text(encoding="utf-8"), re.MULTILINE):
            found[defines].append(name)
    return found


def test_every_public_class_has_a_name_of_its_own() -> None:
    assert {name: files for name, files in public_classes().items() if len(files) > 1} == {}


PROVIDERS = frozenset({"aws", "gcp", "azure"})
ABOUT_PROVIDERS = ("app/local/", *(f"workers/providers/{provider}/" for provider in sorted(PROVIDERS)))
"""Their own folders; and `make up`, which gives each simulated cloud an account."""


def test_only_its_own_folder_names_a_provider() -> None:
    named = []
    for path in tracked_files():
        name = str(path.relative_to(ROOT))
        if path.suffix == ".py" and name.startswith(("app/", "workers/")) and not name.startswith(ABOUT_PROVIDERS):
            text = path.read_text("utf-8")
            nodes = ast.walk(ast.parse(text)) if any(provider in text for provider in PROVIDERS) else ()
            constants = (node for node in nodes if isinstance(node, ast.Constant))
            named += [f"{name}:{node.lineno}" for node in constants if node.value in PROVIDERS]
    assert named == []


PLACEHOLDERS = frozenset({"one", "found", "wanted", "told", "kept", "shown", "given", "said"})
"""Names that say what happened to a value, or nothing. The thing has a noun: `lease`, `rows`, `criteria`, `message`."""


def bound_names(tree: ast.Module) -> Iterator[str]:
    """Variables, arguments, attributes, and targets of loops and comprehensions."""
    for node in ast.walk(tree):
        match node:
            case ast.Name(id=name, ctx=ast.Store()) | ast.Attribute(attr=name, ctx=ast.Store()) | ast.arg(arg=name):
                yield name
            case ast.ExceptHandler(name=str(name)) | ast.MatchAs(name=str(name)) | ast.MatchStar(name=str(name)):
                yield name


def count_placeholders(texts: Iterable[str]) -> dict[str, int]:
    counts = Counter(name.strip("_") for text in texts for name in bound_names(ast.parse(text)))
    return {name: counts[name] for name in sorted(PLACEHOLDERS) if counts[name]}


def test_a_value_has_the_noun_of_the_thing() -> None:
    product = ("app/", "workers/", "cloudsim/")
    paths = [path for path in tracked_files() if path.suffix == ".py"]
    counts = count_placeholders(
        path.read_text("utf-8") for path in paths if str(path.relative_to(ROOT)).startswith(product)
    )
    assert counts == {}


def test_placeholders_are_counted_wherever_a_name_is_bound() -> None:
    text = "def f(wanted, *told):\n    found = [one for one in wanted]\n    wanted.kept = {'shown': found}\n    return found"
    assert count_placeholders([text]) == {"found": 1, "kept": 1, "one": 1, "told": 1, "wanted": 1}


NAMED_BY_LIBRARIES = frozenset({"on_files", "on_page_markdown", "pytestmark"})
"""MkDocs and pytest look for these."""


BEGINS_LINE = re.compile(r"^(?:async def |def |class )?(\w+)", re.MULTILINE)
"""What a module may define. Only one in which such a name is the only word of its kind is parsed."""


def defined(tree: ast.Module) -> Iterator[str]:
    """The functions, classes and constants of a module. What has a decorator is used by it."""
    for node in tree.body:
        match node:
            case ast.FunctionDef() | ast.AsyncFunctionDef() | ast.ClassDef() if not node.decorator_list:
                yield node.name
            case ast.Assign(targets=[ast.Name(id=name)]) | ast.AnnAssign(target=ast.Name(id=name)):
                yield name


def test_nothing_is_defined_that_nobody_uses() -> None:
    modules = {path: path.read_text("utf-8") for path in tracked_files() if path.suffix == ".py"}
    words = Counter(word for text in modules.values() for word in re.findall(r"\w+", text))
    unused = [
        f"{path.relative_to(ROOT)}: {name}"
        for path, text in modules.items()
        if path.relative_to(ROOT).parts[0] != "migrations"
        and any(words[name] == 1 and not name.startswith("test_") for name in BEGINS_LINE.findall(text))
        for name in defined(ast.parse(text))
        if words[name] == 1 and not name.startswith(("test_", "Test", "pytest_")) and name not in NAMED_BY_LIBRARIES
    ]
    assert unused == []
