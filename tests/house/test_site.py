"""The documentation site: it builds strictly, holds together, and needs no other host."""

import os
import re
import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit
from xml.etree import ElementTree as ET

import pytest

from app.domain.leases import TRANSITIONS
from app.settings import load_accounts
from tests.house.sources import ROOT

LOADING = {"src", "srcset", "data", "poster", "action"}


class Parts(HTMLParser):
    """Ids, links, and what a page loads by itself."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.ids: set[str] = set()
        self.links: set[str] = set()
        self.loaded: set[str] = set()
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        values = {name: value or "" for name, value in attrs}
        self.ids.add(values.get("id", ""))
        if tag == "a":
            self.links.add(values.get("href", ""))
        else:
            self.loaded |= {
                value for name, value in values.items() if name in LOADING or (tag, name) == ("link", "href")
            }


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> dict[Path, Parts]:
    """The pages of the site as `make docs` builds it: any warning fails."""
    folder = tmp_path_factory.mktemp("site")
    argv = [sys.executable, "-m", "mkdocs", "build", "--site-dir", str(folder)]
    done = subprocess.run(
        argv, cwd=ROOT, env={**os.environ, "NO_MKDOCS_2_WARNING": "1"}, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    pages = sorted(folder.rglob("*.html"))
    return {path: Parts(path.read_text(encoding="utf-8")) for path in pages if path.name != "404.html"}


def test_every_link_and_picture_leads_somewhere(site: dict[Path, Parts]) -> None:
    broken = [
        (page.name, target)
        for page, parts in site.items()
        for target in parts.links | parts.loaded
        if target and not is_there(site, page, target)
    ]
    assert not broken


def is_there(site: dict[Path, Parts], page: Path, target: str) -> bool:
    """Other hosts' pages are not looked at."""
    place = urlsplit(target)
    if place.scheme:
        return True
    path = (page.parent / unquote(place.path)).resolve() if place.path else page
    if path not in site:
        return path.exists()
    return not place.fragment or unquote(place.fragment) in site[path].ids


def test_nothing_is_loaded_from_another_host(site: dict[Path, Parts]) -> None:
    foreign = [(page.name, one) for page, parts in site.items() for one in parts.loaded if urlsplit(one).netloc]
    assert not foreign


def test_every_operation_and_schema_is_in_the_reference(site: dict[Path, Parts]) -> None:
    (reference,) = (parts for page, parts in site.items() if page.match("reference/api.html"))
    assert {"create_lease", "list_events", "NewLease", "Lease", "Problem"} <= reference.ids


def test_the_picture_of_the_states_shows_every_transition() -> None:
    picture = ET.parse(ROOT / "docs" / "pictures" / "states.svg")  # noqa: S314 - our own file
    shown = [(one.get("data-from"), one.get("data-to")) for one in picture.iter() if one.get("data-from")]
    assert len(shown) == len(set(shown))
    assert set(shown) == {(str(state), str(after)) for state, next_ones in TRANSITIONS.items() for after in next_ones}


def test_the_accounts_of_the_how_to_are_ones_that_the_program_reads(tmp_path: Path) -> None:
    page = (ROOT / "docs" / "howto" / "first-account.md").read_text(encoding="utf-8")
    blocks = re.findall(r"^    ```toml\n(.*?)^    ```", page, flags=re.MULTILINE | re.DOTALL)
    accounts = tmp_path / "gpulease.toml"
    accounts.write_text("\n".join(line.strip() for block in blocks for line in block.splitlines()), encoding="utf-8")
    assert {account.provider for account in load_accounts(accounts).values()} == {"aws", "gcp", "azure"}
