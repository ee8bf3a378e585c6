"""What the tokens of a VM open, as docs/trust.md says."""

import re
from typing import Any

import pytest
from fastapi import FastAPI

from tests.api.conftest import Caller
from tests.api.fleet import Fleet
from tests.harness.databases import ROOT

_PARAMETER = re.compile(r"\{(\w+)\}")


def named(secret: str) -> set[str]:
    """The operations that the page names for a secret."""
    page = (ROOT / "docs" / "trust.md").read_text(encoding="utf-8")
    (row,) = re.findall(rf"^\| {secret} \| (.*?) \|", page, re.MULTILINE)
    return set(re.findall(r"`(.*?)`", row))


@pytest.mark.parametrize("secret", ["agent token", "host key token"])
async def test_each_token_opens_what_the_trust_page_says(
    app: FastAPI, alice: Caller, database_url: str, spec: dict[str, Any], secret: str
) -> None:
    fleet = Fleet(database_url)
    fleet.catalogue()
    lease_id = (await alice.post("/v1/leases", json={"gpu": {"model": "A10G"}, "ttl_seconds": 3600})).json()["id"]
    fleet.activate(lease_id)
    token = fleet.give_agent_token(lease_id) if secret == "agent token" else fleet.give_token(lease_id)
    opened = set()
    async with Caller(app, token) as vm, Caller(app, None) as stranger:
        for path, operations in spec["paths"].items():
            own = _PARAMETER.sub(lambda match: lease_id if match[1] == "lease_id" else "x", path)
            for method in operations.keys() & {"get", "put", "post", "patch", "delete"}:
                if own.endswith("/stream"):
                    continue  # refused like the list of the same path
                body = {} if method in ("post", "patch", "put") else None
                answers = [await caller.request(method, own, json=body) for caller in (stranger, vm)]
                if answers[0].status_code == 401 != answers[1].status_code:
                    opened.add(f"{method.upper()} {path}")
    assert opened == named(secret)
