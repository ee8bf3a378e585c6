"""Each promise of the pages and of openapi.json names the test that holds it, in promises.toml.

A promise is a sentence with a word of WORD: it says what never, always or only once happens, or the most of something.
`at once` says how soon, `once the VM runs` when, `keeps it from starting` why not, and `Null: never` what a value means:
none of them is such a word.
"""

import ast
import json
import re
import tomllib
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from tests.house.sources import ROOT, statements, tracked_files
from tests.house.test_language import CODE_BLOCK, COMMENT, LINK

LIST = ROOT / "tests" / "house" / "promises.toml"
OPENAPI = "openapi.json"
NO_PROMISES = {"of others", "advice", "history", "internal"}
"""Sentences that promise nothing to a user, by what they are.

`of others`: what a cloud or another program does. `advice`: what a reader should do. `history`: what was measured or
was so before. `internal`: how the code is made, which reviews and the import rules keep.
"""
WORD = re.compile(
    r"\b(?:(?<!Null: )(?<!Inf: )(?<!Empty: )never|always|keeps(?!(?: [\w\-]+){1,3} from\b)|at most|"
    r"(?<!\bat )once(?! (?:the|a|an|it|its|they|their|he|she|we|you|all|every|each|no|that|this|these|none|nothing|VMs|gpulease|compressed)\b))"
    r"(?![\w-])",
    re.IGNORECASE,
)
FEW_WORDS = 5
CODE_SPAN = re.compile(r"``[^`]+``|`[^`]+`")
SENTENCE_END = re.compile(r"(?<=[.!?:])[\"')*]*\s+(?=[\"'`(*]*(?:[A-Z`]|gpulease ))")
LIST_ITEM = re.compile(r"\s*(?:[-*+]|\d+\.)\s+|\s*#+\s+|\s*(?:!!!|\?\?\?)\s+|\s*>\s?")


def sentences(text: str) -> Iterator[str]:
    """The sentences of a page or description: of paragraphs, items of lists, headings and cells of tables."""
    lines: list[str] = []
    for line in [*COMMENT.sub("", CODE_BLOCK.sub("\n", text)).splitlines(), ""]:
        is_row = line.lstrip().startswith("|")
        if not line.strip() or is_row or LIST_ITEM.match(line):
            yield from split(" ".join(lines))
            lines = []
        if is_row:
            yield from of_cells([cell.strip() for cell in re.split(r"(?<!\\)\|", line.strip().strip("|"))])
        elif line.strip():
            item = LIST_ITEM.match(line)
            lines.append(line[item.end() if item else 0 :].strip())
    yield from split(" ".join(lines))


def of_cells(cells: list[str]) -> Iterator[str]:
    """A cell of few words has that of the row's beginning in front."""
    for cell in cells:
        few = len(cell.split()) < FEW_WORDS and cell != cells[0] and WORD.search(cell)
        yield from split(f"{cells[0]}: {cell}" if few else cell)


def split(paragraph: str) -> Iterator[str]:
    plain = " ".join(LINK.sub(r"\1", paragraph).split())
    yield from (sentence.rstrip(".") for sentence in SENTENCE_END.split(plain) if sentence)


def promises(text: str) -> list[str]:
    return [one for one in sentences(text) if WORD.search(CODE_SPAN.sub("X", one))]


def descriptions(value: Any) -> Iterator[str]:
    if isinstance(value, dict):
        for name, part in value.items():
            if name in {"description", "summary"} and isinstance(part, str):
                yield part
            else:
                yield from descriptions(part)
    elif isinstance(value, list):
        for part in value:
            yield from descriptions(part)


@cache
def pages() -> dict[str, list[str]]:
    """The promises of each page, and of the API's document."""
    files = [path.relative_to(ROOT) for path in tracked_files()]
    texts = {str(path): [(ROOT / path).read_text("utf-8")] for path in files if path.suffix == ".md"}
    found = {page: promises(text) for page, [text] in texts.items() if page.startswith("docs/")}
    document = json.loads((ROOT / OPENAPI).read_text("utf-8"))
    found[OPENAPI] = [one for text in dict.fromkeys(descriptions(document)) for one in promises(text)]
    return {page: list(dict.fromkeys(some)) for page, some in found.items()}


@cache
def listed() -> dict[str, Any]:
    return tomllib.loads(LIST.read_text("utf-8"))


def holders(page: str) -> dict[str, list[str]]:
    """The tests, or the one word of NO_PROMISES, of each listed sentence of a page."""
    entries: dict[str, str | list[str]] = listed()["pages"].get(page, {})
    return {sentence: [value] if isinstance(value, str) else value for sentence, value in entries.items()}


def done() -> list[str]:
    return sorted(pages().keys() - set(listed()["not_yet"]))


def test_each_promise_is_in_the_list() -> None:
    missing = {page: [one for one in pages()[page] if one not in holders(page)] for page in done()}
    assert {page: some for page, some in missing.items() if some} == {}, f"name their tests in {LIST.name}"


def test_each_sentence_of_the_list_stands_on_its_page() -> None:
    gone = {page: holders(page).keys() - set(sentences_of(page)) for page in listed()["pages"]}
    assert {page: some for page, some in gone.items() if some} == {}, f"remove them from {LIST.name}"


def sentences_of(page: str) -> list[str]:
    if page == OPENAPI:
        document = json.loads((ROOT / OPENAPI).read_text("utf-8"))
        return [one for text in descriptions(document) for one in sentences(text)]
    return list(sentences((ROOT / page).read_text("utf-8")))


def test_no_page_without_a_promise_waits() -> None:
    not_yet: list[str] = listed()["not_yet"]
    assert not_yet == sorted(set(not_yet))
    assert [page for page in not_yet if not pages().get(page)] == []


def test_each_named_test_exists() -> None:
    named = {name for page in listed()["pages"] for names in holders(page).values() for name in names}
    assert sorted(name for name in named - NO_PROMISES if not exists(name)) == []


def exists(name: str) -> bool:
    """`tests/x/test_y.py::test_z` or `…::TestClass::test_z`."""
    path, _, inner = name.partition("::")
    return inner.rpartition("::")[2] in names_of_tests(ROOT / path)


@cache
def names_of_tests(path: Path) -> frozenset[str]:
    if not path.is_file():
        return frozenset()
    nodes = statements(ast.parse(path.read_text("utf-8")))
    functions = (node.name for node in nodes if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef))
    return frozenset(name for name in functions if name.startswith("test_"))


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("It never ends. It ends.", ["It never ends"]),
        ("| a | It keeps one of the two |\n\n- one: At most 3.\n- two", ["It keeps one of the two", "At most 3"]),
        ("| `a` | never |\n| is never b | 1 |", ["`a`: never", "is never b"]),
        ("A VM [starts\nonce](x.md).", ["A VM starts once"]),
        (
            "It ends at once. Once the VM runs, all is well. `never` is a value. What keeps a lease from it. Null: never.",
            [],
        ),
        ("```\nnever\n```\n\n## Always on", ["Always on"]),
    ],
)
def test_promises_are_found(text: str, found: list[str]) -> None:
    assert promises(text) == found


def test_an_unknown_test_is_found() -> None:
    assert exists("tests/house/test_promises.py::test_an_unknown_test_is_found")
    assert not exists("tests/house/test_promises.py::test_that_does_not_exist")
    assert not exists("tests/house/test_no_such_file.py::test_an_unknown_test_is_found")
