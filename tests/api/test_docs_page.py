"""The documentation that the API serves, without a browser. `tests/browser/test_reference.py` uses one."""

import hashlib
import re

import pytest

from app.api.openapi.docs_page import POLICY, reference_files
from app.services.errors import every_error
from tests.api.conftest import Caller
from tests.house.sources import ROOT

VENDOR = ROOT / "app" / "api" / "openapi" / "reference" / "vendor"


@pytest.mark.parametrize("path", ["/docs", "/docs/errors"])
async def test_a_page_loads_only_what_this_api_serves_and_has_no_inline_code(anonymous: Caller, path: str) -> None:
    anonymous.app.state.openapi = b"{}"  # takes a second to make; tests/api/test_openapi.py reads it
    page = await anonymous.get(path)
    assert page.headers["content-type"].startswith("text/html")
    assert page.headers["content-security-policy"] == POLICY
    assert not re.search(r"<script>|<style>| style=| on[a-z]+=", page.text)
    for target in re.findall(r'(?:src|href)="([^"#][^"]*)"', page.text):
        assert "//" not in target
        found = await anonymous.get(str(page.url.join(target)), follow_redirects=True)
        assert found.status_code == 200, target


async def test_every_error_code_has_an_anchor(anonymous: Caller) -> None:
    page = await anonymous.get("/docs/errors")
    for text in (page.text, (ROOT / "docs" / "errors.md").read_text(encoding="utf-8")):
        for error in every_error():
            assert f'id="{error.code}"' in text


async def test_no_other_file_is_served(anonymous: Caller) -> None:
    assert set(reference_files()) == {
        *("index.html", "reference.css", "resolve.js", "start.js", "vendor/swagger-ui.css", "vendor/swagger-ui.js")
    }
    for name in ("__init__.py", "vendor/README.md", "../http/auth.py", "vendor"):
        assert (await anonymous.get(f"/docs/assets/{name}")).status_code == 404


async def test_the_root_leads_to_the_dashboard(anonymous: Caller) -> None:
    answer = await anonymous.get("/")
    assert (answer.status_code, answer.headers["location"]) == (307, "dashboard/")


def test_the_vendored_files_have_the_recorded_hashes_and_their_licence() -> None:
    rows = re.findall(r"^\| `([\w.-]+)` \|.*\| `([0-9a-f]{64})` \|$", (VENDOR / "README.md").read_text(), re.MULTILINE)
    assert {name for name, _ in rows} == {path.name for path in VENDOR.iterdir() if path.suffix in {".js", ".css"}}
    for name, digest in rows:
        assert hashlib.sha256((VENDOR / name).read_bytes()).hexdigest() == digest, name
    assert "Apache License" in (VENDOR / "LICENSE-swagger-ui").read_text()
