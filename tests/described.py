"""openapi.json as tests read it, which one test holds against the code. The code takes a second to describe the API."""

import json
from functools import cache
from typing import Any

from app.api.openapi.shortening import unfolded
from tests.harness.databases import ROOT


@cache
def document() -> dict[str, Any]:
    """With shared parameters in each operation. Nobody changes it."""
    return unfolded(json.loads((ROOT / "openapi.json").read_text(encoding="utf-8")))
