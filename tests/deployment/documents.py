"""What the documentation and the compose file say, in the form in which it is tried."""

import re
from collections.abc import Mapping
from functools import cache
from typing import Any

import yaml

from tests.harness.databases import ROOT

DOCS = ROOT / "docs"
_BLOCK = re.compile(r"^( *)```(\w*)\n(.*?)^ *```$", re.MULTILINE | re.DOTALL)
_VARIABLE = re.compile(r"\$\{(\w+):\?[^}]*\}")


def block(page: str, language: str, holding: str) -> str:
    """The one block of code on a page of docs/ that is in this language and holds these words."""
    text = (DOCS / page).read_text(encoding="utf-8")
    found = [code for _, name, code in _BLOCK.findall(text) if name == language and holding in code]
    if len(found) != 1:
        raise LookupError(f"docs/{page} has {len(found)} blocks of {language or 'text'} that hold {holding!r}")
    return str(found[0])


@cache
def compose() -> dict[str, Any]:
    document: dict[str, Any] = yaml.safe_load((ROOT / "docker-compose.yml").read_text(encoding="utf-8"))
    return document


def service_environment(service: str, variables: Mapping[str, str], places: Mapping[str, str]) -> dict[str, str]:
    """What the compose file gives a service. `variables` stand for .env; `places` says where its other services are."""

    def fill(value: str) -> str:
        filled = _VARIABLE.sub(lambda found: variables[found[1]], value)
        for name, place in places.items():
            filled = filled.replace(name, place)
        return filled

    environment: dict[str, str] = compose()["services"][service].get("environment", {})
    return {name: fill(value) for name, value in environment.items()}
