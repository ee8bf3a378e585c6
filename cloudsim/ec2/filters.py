"""EC2 filters: any of the values of every filter, `*` and `?` as wildcards, case matters."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from typing import Any, TypeVar

from cloudsim.ec2.errors import AwsError

T = TypeVar("T")
Filters = list[Mapping[str, Any]]
"""[{"Name": ..., "Values": [...]}]"""


def has_wildcard(value: str) -> bool:
    """The value is a pattern rather than itself."""
    return "*" in value or "?" in value


def _pattern(value: str) -> str:
    return "".join({"*": ".*", "?": "."}.get(character, re.escape(character)) for character in value)


def one_of(values: Iterable[str]) -> Callable[[str], bool]:
    """Does a text equal one of `values`, or match it where it has wildcards?"""
    values = list(values)
    if not any(has_wildcard(value) for value in values):
        return frozenset(values).__contains__
    patterns = re.compile("|".join(_pattern(value) for value in values), re.DOTALL)
    return lambda text: patterns.fullmatch(text) is not None


def _tag_test(name: str, test: Callable[[str], bool], tags_of: Callable[[T], Mapping[str, str]]) -> Callable[[T], bool]:
    if name == "tag-key":
        return lambda item: any(test(key) for key in tags_of(item))
    key = name.removeprefix("tag:")
    return lambda item: key in tags_of(item) and test(tags_of(item)[key])


def _field_test(test: Callable[[str], bool], field: Callable[[T], str | Iterable[str] | None]) -> Callable[[T], bool]:
    def matches(item: T) -> bool:
        values = field(item)
        if values is None or isinstance(values, str):
            return values is not None and test(values)
        return any(test(value) for value in values)

    return matches


def compiled(
    filters: Filters,
    fields: Mapping[str, Callable[[T], str | Iterable[str] | None]],
    tags_of: Callable[[T], Mapping[str, str]] | None = None,
) -> Callable[[T], bool]:
    """One predicate for all filters.

    `fields` reads what a filter name means; tags are known when `tags_of` is given. Raises AwsError for an
    unknown filter.
    """
    tests: list[Callable[[T], bool]] = []
    for raw in filters:
        name, test = raw.get("Name", ""), one_of(raw.get("Values", []))
        if name in fields:
            tests.append(_field_test(test, fields[name]))
        elif tags_of is not None and (name == "tag-key" or name.startswith("tag:")):
            tests.append(_tag_test(name, test, tags_of))
        else:
            raise AwsError("InvalidParameterValue", f"The filter '{name}' is invalid")
    if len(tests) == 1:
        return tests[0]
    return lambda item: all(test(item) for test in tests)
