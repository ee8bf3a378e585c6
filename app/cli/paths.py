"""Paths of the API: the one place where a value of a caller becomes a part of a path.

`make clients` copies this module into the Python client.

A value must not choose another resource: `lease_1/../../budgets/budget_2` in a path would be a budget. The API decodes a
path before it looks for the operation, as many proxies do, some of them twice, so a slash stays a slash behind every
encoding.
"""

import re
from urllib.parse import quote, unquote

from app.cli.errors import InvalidValueError

_SUFFIX = re.compile(r"[0-7][0-9a-hjkmnp-tv-z]{25}")
"The alphabet of type ids (TypeID specification 0.3): base32 of 128 bits."
_WRONG = re.compile(r"[/\\%\x00-\x1f\x7f]|^\.{0,2}$")
"What no encoding makes a part of a path: slashes, percent signs, control characters, and `.` and `..`."


def path_of(base: str, *values: str) -> str:
    """`base` with each value as one further part, percent-encoded. Raises InvalidValueError for a value that is none."""
    return "/".join([base, *map(_part, values)])


def check_path(path: str) -> str:
    """The path, if it equals its normal form. Raises InvalidValueError otherwise, before anything is sent."""
    parts = path.split("/")[1:]
    if not path.startswith("/v1/") or not all(_is_normal(part) for part in parts):
        msg = f"{path!r} is not a path of the API"
        raise InvalidValueError(msg)
    return path


def is_id(text: str, noun: str) -> bool:
    """Whether the text is a whole id of that noun: `lease_` and 26 characters. Does not check that the id exists."""
    head, _, suffix = text.partition("_")
    return head == noun and _SUFFIX.fullmatch(suffix) is not None


def _part(value: str) -> str:
    if _WRONG.search(value):
        msg = f"{value!r} is no id or name: it cannot be a part of a path"
        raise InvalidValueError(msg)
    return quote(value, safe="")


def _is_normal(part: str) -> bool:
    value = unquote(part)
    return _WRONG.search(value) is None and quote(value, safe="") == part
