"""Pages, docstrings and messages are plain technical English: short sentences, and no phrases from a list of calques."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.house.sources import ROOT, statements, tracked_files

MOST_WORDS = 30

CALQUES = re.compile(
    r"\b(?:"
    r"told|tells?|"  # reports, returns, records
    r"dear(?:er|est)?|"  # expensive
    r"left over|"  # leftover resource
    r"(?:is|are) no more(?=[.,;:)]|$)|"  # was deleted
    r"out of reach|"  # unreachable
    r"of late|"  # recently
    r"wish(?:es|ed)?|"  # request
    r"whoever|whatever becomes|what becomes of|what became of|"
    r"unknowing|since ever|are the least|"
    r"tak(?:e|es|en) (?:\w+ ){0,3}back|"  # interrupt, release
    r"giv(?:e|es|en) (?:\w+ ){0,2}back|"
    r"stands? behind|"  # belongs to
    r"for want of|"  # for lack of
    r"asked for|asks for"  # requested
    r")\b",
    re.IGNORECASE,
)

CODE_BLOCK = re.compile(r"^ *```.*?^ *```", re.MULTILINE | re.DOTALL)
COMMENT = re.compile(r"<!--.*?-->", re.DOTALL)
CODE = re.compile(r"``[^`]+``|`[^`]+`")
LINK = re.compile(r"!?\[([^\]]*)\]\([^)]*\)")
NEW_PARAGRAPH = re.compile(r"\s*(?:[-*+]|\d+\.)\s+")
NOT_PROSE = re.compile(r"\s*(?:\||#|<|---)")
SENTENCE_END = re.compile(r"(?<=[.!?])[\"')*]*\s+")
WORD = re.compile(r"[\w$%/…-]*\w[\w$%/…'\u2019.-]*")
NOT_MESSAGE = re.compile(
    r"\b(?:SELECT|INSERT INTO|UPDATE|DELETE FROM|CREATE (?:TABLE|ROLE|DATABASE)|ALTER ROLE|GRANT)\b|"  # SQL
    r"\b(?:FROM|WHERE|VALUES|WHEN|WITH|IS NULL)\b|"
    r"</\w|^#!/|^\[Unit\]|^\s*(?:import|from) \w+|\"\$\w",  # HTML and scripts
    re.MULTILINE,
)

FILES = [path.relative_to(ROOT) for path in tracked_files()]
PAGES = [path for path in FILES if path.suffix == ".md" and path.parts[0] == "docs"]
MODULES = [path for path in FILES if path.suffix == ".py" and path.parts[0] in {"app", "workers", "cloudsim"}]


def paragraphs(text: str) -> Iterator[str]:
    """The prose of a page or docstring. Tables, headings and blocks of code are left out."""
    lines: list[str] = []
    for line in [*COMMENT.sub("", CODE_BLOCK.sub("\n", text)).splitlines(), ""]:
        if not line.strip() or NOT_PROSE.match(line) or NEW_PARAGRAPH.match(line):
            yield " ".join(lines)
            lines = []
        if line.strip() and not NOT_PROSE.match(line):
            lines.append(NEW_PARAGRAPH.sub("", line, count=1) if NEW_PARAGRAPH.match(line) else line.strip())
    yield " ".join(lines)


def faults(text: str) -> list[str]:
    """Sentences that are too long, and sentences that contain a calque."""
    found = []
    for paragraph in paragraphs(text):
        for sentence in SENTENCE_END.split(LINK.sub(r"\1", CODE.sub("X", paragraph))):
            words = len(WORD.findall(sentence))
            if words > MOST_WORDS:
                found.append(f"{words} words: {sentence}")
            found += [f"{calque[0]!r}: {sentence}" for calque in CALQUES.finditer(sentence)]
    return found


def docstrings(tree: ast.Module) -> Iterator[str]:
    for node in statements(tree):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            yield ast.get_docstring(node) or ""


def messages(tree: ast.Module) -> Iterator[str]:
    """String constants of more than three words, docstrings included. SQL, HTML and scripts are left out."""
    waiting: list[ast.AST] = [tree]
    while waiting:
        node = waiting.pop()
        text = ""
        if isinstance(node, ast.JoinedStr):
            text = "".join(str(part.value) if isinstance(part, ast.Constant) else "X" for part in node.values)
            waiting += (part.value for part in node.values if isinstance(part, ast.FormattedValue))
        elif isinstance(node, ast.Constant):
            text = node.value if isinstance(node.value, str) else ""
        else:
            waiting += ast.iter_child_nodes(node)
        if text.count(" ") >= 3 and not NOT_MESSAGE.search(text):
            yield text


def faults_of_module(source: str) -> list[str]:
    tree = ast.parse(source)
    return sorted({fault for text in (*docstrings(tree), *messages(tree)) for fault in faults(text)})


def faults_of(path: Path) -> list[str]:
    text = (ROOT / path).read_text(encoding="utf-8")
    return faults(text) if path.suffix == ".md" else faults_of_module(text)


def test_every_file_is_plain_technical_english() -> None:
    found = {str(path): faults_of(path) for path in (*PAGES, *MODULES)}
    assert {path: faults for path, faults in found.items() if faults} == {}


@pytest.mark.parametrize(
    "text",
    [
        "A lease that was taken back ends.",
        "Whoever asks for it gets it.",
        "word " * 31,
        "- One.\n- What becomes of it, GET tells.",
    ],
)
def test_faults_are_found(text: str) -> None:
    assert faults(text)


@pytest.mark.parametrize(
    "text",
    [
        "word " * 30,
        "```\nwhoever\n```",
        "| told |\n|---|\n| whoever |",
        "The field `told` is null. " * 8,
    ],
)
def test_code_and_tables_are_left_out(text: str) -> None:
    assert not faults(text)


@pytest.mark.parametrize(
    "source",
    [
        'raise ValueError("there is no room for the VM asked for")',
        "raise ValueError(f\"{provider} has the regions {names('as the cloud tells them')}\")",
        'LIMIT = 3\n"""Whatever becomes of them, three are enough."""',
        f"HELP = {'word ' * 31!r}",
    ],
)
def test_faults_in_messages_are_found(source: str) -> None:
    assert faults_of_module(source)


@pytest.mark.parametrize(
    "source",
    [
        'SQL = "SELECT state FROM leases WHERE told"',
        'HTML = "<p>a page that was told</p>"',
        'SCRIPT = "import json\\nprint(json.dumps(told))  # told once"',
    ],
)
def test_statements_and_scripts_are_left_out(source: str) -> None:
    assert not faults_of_module(source)
