"""The reference for people."""

import base64
import hashlib
import re

from app.api.app import routed
from app.api.http.openapi_document import document
from tests.api.conftest import Caller


async def test_the_page_shows_every_operation_and_every_schema(anonymous: Caller) -> None:
    shown = await anonymous.get("/docs")
    assert shown.headers["content-type"].startswith("text/html")
    spec = document(routed())
    names = [one["operationId"] for methods in spec["paths"].values() for one in methods.values()]
    for name in [*names, *spec["components"]["schemas"]]:
        assert f'id="{name}"' in shown.text
    targets = set(re.findall(r'href="#([^"]+)"', shown.text))
    assert all(f'id="{target}"' in shown.text for target in targets)


async def test_its_style_is_allowed_by_its_policy_and_nothing_else_is(anonymous: Caller) -> None:
    shown = await anonymous.get("/docs")
    [style] = re.findall(r"<style>(.*?)</style>", shown.text, flags=re.DOTALL)
    digest = base64.b64encode(hashlib.sha256(style.encode()).digest()).decode()
    assert f"style-src 'sha256-{digest}'" in shown.headers["content-security-policy"]
    assert "<script" not in shown.text
    assert "style=" not in shown.text
    links = re.findall(r'(?:src|href|action|srcset|poster)="([^"]*)"', shown.text)
    assert links
    assert all(link.startswith(("#", "/")) and not link.startswith("//") for link in links)


async def test_the_document_is_served_as_it_is_committed(anonymous: Caller) -> None:
    assert (await anonymous.get("/openapi.json")).json() == document(routed())
