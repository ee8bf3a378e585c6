"""Pages that say what gpulease has, lacks and measured are compared with openapi.json and the programs themselves."""

import json
import re
from pathlib import Path
from typing import Any

import pytest

from app.server.main import PROCESSES
from tests.house.sources import ROOT, tracked_files
from tests.house.test_promises import sentences

COMPARISON = ROOT / "docs" / "comparison.md"
PAGES = {
    str(path.relative_to(ROOT)): path.read_text(encoding="utf-8") for path in tracked_files() if path.suffix == ".md"
}
LACKS = "What gpulease lacks"
FEATURES = {
    "group": "/v1/groups",
    "cluster": "/v1/groups",
    "quota": "/v1/quotas",
    "budget": "/v1/budgets",
    "quote": "/v1/quotes",
    "spend cap": "max_cost",
    "idle": "idle",
    "spot": "on_interruption",
    "proof": "proof",
    "waits": "wait_seconds",
    "webhook": "/v1/webhooks",
    "reservation": "/v1/reservations",
    "volume": "/v1/volumes",
    "snapshot": "/v1/snapshots",
    "Kubernetes": "/v1/clusters",
    "container": "/v1/containers",
    "job queue": "/v1/jobs",
    "object store": "/v1/buckets",
    "file system": "/v1/filesystems",
    "own machines": "/v1/hosts",
    "share a VM": "/v1/shares",
}
"""Words of pages, and the path or the field of a lease request that openapi.json has once the feature exists."""
NOT_OF_THE_API = {"three clouds", "simulated clouds"}
"""What a sentence of the section says of something else than the API."""
DENIAL = re.compile(
    r"\bgpulease (?:has no|has neither|lacks|does not have|does not support|offers no|knows no)\b[^.|\n]*"
)
FIGURE = re.compile(
    r"\bp(?:50|95|99)\b|\*\*\d[\d.,]*(?: to \d[\d.]*)? ?(?:s|ms|MiB|%)\b|\*\*\d[\d.,]* of \d|"
    r"\b\d[\d.,]* (?:ms|s|MiB|MB) of (?:CPU|resident)|\b\d[\d.,]* requests a second|\btook \d[\d.,]* (?:s|ms)\b|\d GB/s\b"
)
DATE = re.compile(r"\b20\d\d-\d\d-\d\d\b")
COMMAND = re.compile(r"`(?:make |(?:\.venv/bin/)?python -m |sudo gpulease-agent )")
RECORDS = {"decisions", "architecture"}
"""Records of decisions say what carried them then; docs/architecture leads to docs/performance.md for the figures."""
FROM_A_PUBLIC_INDEX = re.compile(
    r"pip install [^`\n]*?(?<![./\w-])gpulease(?:-client)?\b(?![^\n]*\n +env:\n +PIP_INDEX_URL: https://packages\.example/)"
)


def members() -> set[str]:
    document: dict[str, Any] = json.loads((ROOT / "openapi.json").read_text(encoding="utf-8"))
    return {*document["paths"], *document["components"]["schemas"]["NewLease"]["properties"]}


def denied(text: str) -> list[str]:
    """The features that the text denies and that openapi.json has."""
    has = members()
    return [word for word, member in FEATURES.items() if re.search(rf"\b{word}", text, re.IGNORECASE) and member in has]


def lacking() -> list[str]:
    section = COMPARISON.read_text(encoding="utf-8").split(f"## {LACKS}\n", 1)[1].split("\n## ", 1)[0]
    return list(sentences(section))


def test_what_the_comparison_denies_is_not_in_openapi() -> None:
    wrong = {sentence: denied(sentence) for sentence in lacking()}
    assert {sentence: words for sentence, words in wrong.items() if words} == {}


def test_each_denial_of_the_comparison_can_be_compared() -> None:
    known = [*FEATURES, *NOT_OF_THE_API, "real accounts"]
    assert [sentence for sentence in lacking() if not any(word in sentence for word in known)] == []


def test_what_the_comparison_claims_is_in_openapi() -> None:
    rows = re.findall(r"^\| [\w ]+ \| ([^|]+) \|", COMPARISON.read_text(encoding="utf-8"), re.MULTILINE)
    claimed = [word for word in FEATURES if word in "\n".join(rows)]
    assert {"group", "quota", "budget", "spend cap", "idle", "waits"} <= set(claimed)
    assert {FEATURES[word] for word in claimed} <= members()


def test_the_comparison_has_a_date_and_names_every_kind_of_client() -> None:
    text = COMPARISON.read_text(encoding="utf-8")
    assert DATE.search(text.split("\n|", 1)[0])
    assert all(word in text for word in ("command line", "dashboard", "Python and TypeScript clients", "MCP server"))


def test_no_page_denies_what_openapi_has() -> None:
    wrong = {page: [word for denial in DENIAL.findall(text) for word in denied(denial)] for page, text in PAGES.items()}
    assert {page: words for page, words in wrong.items() if words} == {}


@pytest.mark.parametrize("text", ["gpulease has no clusters.", "It runs. gpulease lacks idle detection, and budgets."])
def test_a_wrong_denial_is_found(text: str) -> None:
    assert [word for denial in DENIAL.findall(text) for word in denied(denial)]


def test_a_page_that_states_a_figure_names_its_command_and_date() -> None:
    figures = {page: FIGURE.findall(text) for page, text in PAGES.items() if not RECORDS & set(Path(page).parts)}
    assert len([page for page, some in figures.items() if some]) >= 3
    unnamed = [page for page, text in PAGES.items() if not (DATE.search(text) and COMMAND.search(text))]
    assert {page: figures[page] for page in unnamed if figures.get(page)} == {}


@pytest.mark.parametrize(
    "text", ["a read takes 3 ms (p99)", "**14.0 s**", "0.54 ms of CPU", "up to 1,800 requests a second"]
)
def test_a_figure_is_found(text: str) -> None:
    assert FIGURE.search(text)


def test_no_page_installs_gpulease_from_a_public_index() -> None:
    """Nothing is published there: a package of that name is somebody else's."""
    assert {page: commands for page, text in PAGES.items() if (commands := FROM_A_PUBLIC_INDEX.findall(text))} == {}


@pytest.mark.parametrize(
    ("command", "wrong"),
    [
        ("pip install gpulease", True),
        ("pip install 'gpulease[mcp]'", True),
        ('pip install "gpulease[local]" gpulease-client pytest', True),
        ("pip install ./gpulease", False),
        (".venv/bin/pip install -e '.[mcp]'", False),
        ("pip install gpulease\n  env:\n    PIP_INDEX_URL: https://packages.example/simple", False),
    ],
)
def test_an_installation_from_a_public_index_is_found(command: str, *, wrong: bool) -> None:
    assert bool(FROM_A_PUBLIC_INDEX.search(command)) is wrong


def test_the_page_of_production_names_every_command() -> None:
    table = (ROOT / "docs" / "running.md").read_text(encoding="utf-8").split("## ", 1)[0]
    assert set(re.findall(r"`([\w-]+)`", "\n".join(re.findall(r"^\| (`[^|]+) \|", table, re.MULTILINE)))) == set(
        PROCESSES
    )


@pytest.mark.parametrize("path", ["I lease GPUs", "I build on the API", "I operate it"])
def test_a_reader_finds_the_own_path(path: str) -> None:
    places = ("README.md", "docs/index.md", "mkdocs.yml")
    assert [place for place in places if path not in (ROOT / place).read_text(encoding="utf-8")] == []
