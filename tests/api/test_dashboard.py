"""The dashboard's files as the API serves them."""

import hashlib
import re
import tomllib

import pytest

from app.api.routes.dashboard import POLICY, static_files
from app.domain.webhooks.formats import WebhookEventType
from tests.api.conftest import Caller
from tests.house.sources import ROOT, tracked_files

FOLDER = ROOT / "dashboard"
PLURAL = re.compile(r"\$\{(?!counted\()([a-z][^{}`]*)\} (?!(?:is|was|has|does)\b)[a-z]+s\b(?!=)")
"""A value in a text, and a plural behind it."""
SERVED = {
    path for path in tracked_files() if path.is_relative_to(FOLDER) and path.suffix in {".html", ".js", ".css", ".svg"}
}


async def test_the_folder_leads_to_the_page_below_any_prefix(anonymous: Caller) -> None:
    answer = await anonymous.get("/dashboard")
    assert (answer.status_code, answer.headers["location"]) == (307, "dashboard/")


async def test_every_file_is_served_with_type_policy_and_etag(anonymous: Caller) -> None:
    assert set(static_files()) == {str(path.relative_to(FOLDER)) for path in SERVED}
    for path in SERVED:
        name = str(path.relative_to(FOLDER))
        answer = await anonymous.get(f"/dashboard/{name}" if name != "index.html" else "/dashboard/")
        assert answer.content == path.read_bytes()
        assert answer.headers["content-security-policy"] == POLICY
        assert answer.headers["x-content-type-options"] == "nosniff"
        assert answer.headers["cache-control"] == "no-cache"
        same = await anonymous.get(f"/dashboard/{name}", headers={"If-None-Match": answer.headers["etag"]})
        assert (same.status_code, same.content) == (304, b"")
        assert same.headers["content-security-policy"] == POLICY


def test_a_text_has_the_plural_of_its_number() -> None:
    assert PLURAL.search("`${items.length} samples refused`")
    files = [path for path in SERVED if path.suffix == ".js" and "vendor" not in path.parts]
    plurals = {str(path): [found[0] for found in PLURAL.finditer(path.read_text())] for path in files}
    assert not {path: found for path, found in plurals.items() if found}


@pytest.mark.parametrize(
    "path", ["nothing.js", "../pyproject.toml", "%2e%2e/app/api/app.py", "__init__.py", "vendor/README.md"]
)
async def test_nothing_else_is_served(anonymous: Caller, path: str) -> None:
    assert (await anonymous.get(f"/dashboard/{path}")).status_code == 404


def test_the_policy_allows_nothing_inline_and_no_other_host() -> None:
    assert POLICY.startswith("default-src 'none';")
    assert not re.search(r"unsafe|\*|http|data:|blob:", POLICY)


def test_the_page_holds_no_inline_script_or_style_and_names_no_host() -> None:
    for path in SERVED:
        text = path.read_text(encoding="utf-8")
        if path.suffix == ".html":
            assert not re.search(r"<script(?![^>]* src=)|<style|\sstyle=|\son\w+=", text)
        named = set(re.findall(r"https?://[^\s\"'`<>)]+", text)) - {"http://www.w3.org/2000/svg"}
        assert path.parent.name == "vendor" or not named, path


def test_every_import_and_every_preload_leads_to_a_file() -> None:
    page = (FOLDER / "index.html").read_text(encoding="utf-8")
    asked = [FOLDER / name for name in re.findall(r'(?:href|src)="([^"]+\.(?:js|css|svg))"', page)]
    for path in SERVED:
        if path.suffix == ".js":
            asked += [path.parent / name for name in re.findall(r'from ?"(\.[^"]+)"', path.read_text(encoding="utf-8"))]
    assert [path for path in asked if path.resolve() not in SERVED] == []


def test_every_change_is_sent_by_an_intention_and_every_request_by_one_module() -> None:
    """A request that a view sends by itself has a new idempotency key for each press."""
    texts = {
        str(path.relative_to(FOLDER)): path.read_text(encoding="utf-8")
        for path in SERVED
        if path.suffix == ".js" and path.parent.name != "vendor"
    }
    imports = {name: re.findall(r'import \{([^}]*)\} from "[./]*/api\.js"', text) for name, text in texts.items()}
    assert [name for name, names in imports.items() if re.search(r"\bchange\b", " ".join(names))] == ["intentions.js"]
    assert [name for name, text in texts.items() if re.search(r"\bfetch\(|XMLHttpRequest|sendBeacon", text)] == [
        "api.js"
    ]


def test_filters_and_webhooks_offer_every_type_of_event() -> None:
    text = (FOLDER / "event_types.js").read_text(encoding="utf-8")
    nouns = re.findall(r'^  (\w+): "([a-z_ ]+)",$', text, flags=re.MULTILINE)
    types = {f"{noun}.{name}" for noun, names in nouns for name in names.split()}
    assert types | set(re.findall(r'\["([a-z.]+)"\]', text)) == set(WebhookEventType)


def test_vendored_files_are_those_of_the_list() -> None:
    text = (FOLDER / "vendor" / "README.md").read_text(encoding="utf-8")
    hashes = dict(re.findall(r"^\| `([a-z.]+)` \| `([0-9a-f]{64})` \|$", text, flags=re.MULTILINE))
    vendored = {path.name: path for path in SERVED if path.parent.name == "vendor"}
    assert {name: hashlib.sha256(path.read_bytes()).hexdigest() for name, path in vendored.items()} == hashes


def test_the_wheel_takes_every_kind_of_file_along() -> None:
    tools = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["setuptools"]
    assert "dashboard*" in tools["packages"]["find"]["include"]
    assert {f"*{path.suffix}" for path in SERVED} | {"LICENSE-*"} <= set(tools["package-data"]["*"])
