"""Pages of a listing, tied together by `nextLink`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from cloudsim.arm.call import Answer, Call, Document
from cloudsim.arm.errors import ArmError

T = TypeVar("T")

PAGE = 200
_TOKEN = "$skiptoken"  # noqa: S105  a parameter's name


def paged(call: Call, items: Sequence[T], view: Callable[[T], Any]) -> Answer:
    """One page of what was found, and the address of the next."""
    text = call.query.get(_TOKEN, "0")
    if not text.isdecimal():
        raise ArmError("InvalidParameter", f"The skip token {text} is invalid.")
    start = int(text)
    body: Document = {"value": [view(item) for item in items[start : start + PAGE]]}
    if start + PAGE < len(items):
        parameters = "&".join(f"{name}={value}" for name, value in call.query.items() if name != _TOKEN)
        body["nextLink"] = f"{call.url}?{parameters}&{_TOKEN}={start + PAGE}"
    return Answer(body)
