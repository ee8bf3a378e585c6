"""What only the program's text can show: how secrets are compared, and what the published list of points names."""

import ast
import hmac
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from app.domain.ids import KeyId
from app.services import key_format
from tests.api.conftest import Caller
from tests.described import document
from tests.harness.databases import ROOT
from tests.security.routes import HOST_KEY

HARMLESS = re.compile(r"\.c\.|^len\(|^hashlib\.sha256\(text\)\.hexdigest\(\) != digest$")
"""Conditions of SQL, which look up by a hash or by an id; lengths; and the digest of a public program."""
SECRET = re.compile(r"secret|password|host_key_hash|token_key|presented|digest", re.IGNORECASE)


def comparisons(path: Path) -> Iterator[str]:
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Compare) and any(isinstance(one, ast.Eq | ast.NotEq) for one in node.ops):
            yield ast.unparse(node)


def test_no_secret_is_compared_by_equality() -> None:
    files = [*(ROOT / "app").rglob("*.py"), *(ROOT / "workers").rglob("*.py")]
    found = {(str(path.relative_to(ROOT)), text) for path in files for text in comparisons(path)}
    assert not [one for one in found if SECRET.search(one[1]) and not HARMLESS.search(one[1])]
    assert len(found) > 100


async def test_every_check_of_a_secret_compares_in_constant_time(
    alice: Caller, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A real key with another secret, and a key that nobody has: one comparison each, over all bytes."""
    compared: list[tuple[Any, Any]] = []
    compare = hmac.compare_digest

    def watched(one: Any, other: Any) -> bool:
        compared.append((one, other))
        return compare(one, other)

    monkeypatch.setattr(hmac, "compare_digest", watched)
    real = key_format.parse(alice.key)
    assert real is not None
    for key_id in (real.key_id, KeyId("key_01jz0000000000000000000000")):
        compared.clear()
        refused = await Caller(alice.app, key_format.generate(key_id).text).get("/v1/me")
        assert refused.status_code == 401
        assert [(len(one), len(other)) for one, other in compared] == [(32, 32)]


async def test_a_wrong_one_time_token_never_meets_a_row(alice: Caller) -> None:
    """It is looked up by its hash: what a caller could time tells of SHA-256 of his guess alone."""
    vm = Caller(alice.app, "f" * 64)
    assert (await vm.post("/v1/host-keys", json={"keys": [HOST_KEY]})).status_code == 401


CALLED_BACK = {("NewWebhook", "url"), ("WebhookPatch", "url")}
"""What a request may name to be called: each is read strictly and led to public addresses alone."""


def test_nothing_but_a_webhook_calls_back() -> None:
    shown = re.compile("^Webhook(?:WithSecret)?$")
    for name, schema in document()["components"]["schemas"].items():
        for field, about in schema.get("properties", {}).items():
            assert about.get("format") not in {"uri", "url", "hostname"}, (name, field)
            named = re.search(r"(?:^|_)(?:url|uri|callback|webhook|endpoint)(?:_|$)", field)
            known = (name, field) in CALLED_BACK or shown.match(name) or (name, field) == ("Delivery", "webhook_id")
            assert not named or known, (name, field)


PAGE = ROOT / "docs" / "security-tests.md"
NAMED = re.compile(r"`(tests/[\w/]+\.py)::(test_\w+)`")


def test_every_test_that_the_page_names_exists() -> None:
    named = NAMED.findall(PAGE.read_text(encoding="utf-8"))
    assert len(named) >= 30
    for path, name in named:
        text = (ROOT / path).read_text(encoding="utf-8")
        assert re.search(rf"^(?:async )?def {name}\(", text, re.MULTILINE), f"{path}::{name}"


def test_every_test_of_this_folder_is_on_the_page() -> None:
    named = {name for _, name in NAMED.findall(PAGE.read_text(encoding="utf-8"))}
    for path in (ROOT / "tests" / "security").glob("test_*.py"):
        if path.name != Path(__file__).name:
            found = set(re.findall(r"^(?:async )?def (test_\w+)\(", path.read_text(encoding="utf-8"), re.MULTILINE))
            assert found <= named, (path.name, found - named)
