"""Hooks of MkDocs: pages made from what lies outside of docs/, and links that lead there."""

import json
import posixpath
import re
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

from app.api.openapi.shortening import unfolded
from tools import reference

ROOT = Path(__file__).resolve().parents[1]

PLACES = {
    "README.md": "index.md",
    "ARCHITECTURE.md": "reference/architecture.md",
    "CONTRIBUTING.md": "reference/contributing.md",
    "openapi.json": "reference/api.md",
}
"""What a link to a file outside of docs/ leads to on the site. Links to other files become plain text."""

_LINK = re.compile(r"\[([^\]]+)\]\((?!https?:|mailto:|#)([^)#\s]+)(#[^)\s]*)?\)")


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Adds the made pages, and to the end of the navigation every page that it does not name."""
    for name in ("ARCHITECTURE.md", "CONTRIBUTING.md"):
        text = (ROOT / name).read_text(encoding="utf-8")
        files.append(File.generated(config, PLACES[name], content=relinked(text, name, PLACES[name])))
    files.append(File.generated(config, PLACES["openapi.json"], content=api_page()))
    named = set(re.findall(r"'([\w/-]+\.md)'", repr(config.nav)))
    more = sorted(file.src_uri for file in files.documentation_pages() if file.src_uri not in named)
    if more and config.nav is not None:
        config.nav.append({"More": _by_folder(more)})
    return files


def _by_folder(pages: Iterable[str]) -> list[Any]:
    """Pages of docs/ itself as they are, others below the name of their folder."""
    groups: dict[str, list[str]] = {}
    for page in pages:
        groups.setdefault(posixpath.dirname(page), []).append(page)
    return [*groups.pop("", []), *({folder.capitalize(): inside} for folder, inside in groups.items())]


def on_page_markdown(markdown: str, page: Page, **_others: object) -> str:
    """Links of our pages that leave docs/."""
    if page.file.generated_by:
        return markdown
    return relinked(markdown, f"docs/{page.file.src_uri}", page.file.src_uri)


def relinked(text: str, source: str, place: str) -> str:
    """The text of the file `source` of the repository, with links that hold on the site's page `place`."""

    def replaced(link: re.Match[str]) -> str:
        label, target, anchor = link[1], link[2], link[3] or ""
        path = posixpath.normpath(posixpath.join(posixpath.dirname(source), target))
        inside = path.removeprefix("docs/") if path.startswith("docs/") else PLACES.get(path)
        if inside is None:
            return label
        return f"[{label}]({posixpath.relpath(inside, posixpath.dirname(place) or '.')}{anchor})"

    return _LINK.sub(replaced, text)


def api_page() -> str:
    """The reference, from the committed description."""
    spec = unfolded(json.loads((ROOT / "openapi.json").read_text(encoding="utf-8")))
    parts = ["# API reference", spec["info"]["description"]]
    parts.append(
        "Every running API has an interactive reference at `/docs`, and the description for machines at `/openapi.json`."
    )
    for title, content in reference.sections(spec):
        parts += [f"## {title.replace('-', ' ').capitalize()}", content]
    return "\n\n".join(parts) + "\n"
