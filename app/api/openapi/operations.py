"""The operations of an OpenAPI document."""

from collections.abc import Iterator
from typing import Any


def operations(document: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """All operations of all paths."""
    for methods in document["paths"].values():
        yield from methods.values()
