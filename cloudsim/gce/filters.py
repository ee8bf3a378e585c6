"""List filters: `field = value` and `field eq regex`, several of them in parentheses, joined by AND or by OR.

Google binds OR and AND in a way of its own when both stand in one expression: that is refused here.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from cloudsim.gce.errors import invalid

_TERM = re.compile(r"([\w.-]+)\s*(!=|=|\beq\b|\bne\b|:)\s*(.+)", re.DOTALL)
_GROUPS = re.compile(r"\(([^()]*(?:\([^()]*\)[^()]*)*)\)\s*(AND|OR)?\s*")


@dataclass(frozen=True, slots=True)
class Term:
    """One comparison."""

    field: str
    operator: str
    value: str

    def matches(self, item: Mapping[str, Any]) -> bool:
        """The item, as the API shows it, fulfils it."""
        value = _value(item, self.field)
        match self.operator:
            case "=":
                return value == self.value
            case "!=":
                return value != self.value
            case ":":
                return value is not None
            case "eq":
                return value is not None and re.fullmatch(self.value, value) is not None
            case _:
                return value is None or re.fullmatch(self.value, value) is None


@dataclass(frozen=True, slots=True)
class Filter:
    """Terms that must hold all, or (`either`) any of which must."""

    terms: tuple[Term, ...] = ()
    either: bool = False

    def matches(self, item: Mapping[str, Any]) -> bool:
        """Everything matches the empty filter."""
        matched = (term.matches(item) for term in self.terms)
        return any(matched) if self.either else all(matched)

    def exact(self, prefix: str) -> tuple[str, list[str]] | None:
        """(field without `prefix`, values) when only items with one of these values can match."""
        chosen = [term for term in self.terms if term.operator == "=" and term.field.startswith(prefix)]
        if not chosen or (self.either and (len(chosen) < len(self.terms) or len({term.field for term in chosen}) > 1)):
            return None
        exact_terms = chosen if self.either else chosen[:1]
        return exact_terms[0].field.removeprefix(prefix), [term.value for term in exact_terms]


def parse(text: str | None) -> Filter:
    """Raises GceError invalid for what is not understood."""
    if not text:
        return Filter()
    if not text.lstrip().startswith("("):
        return Filter((_term(text),))
    at, terms, joints = 0, [], set()
    stripped = text.strip()
    while at < len(stripped):
        group = _GROUPS.match(stripped, at)
        if group is None:
            raise invalid("filter", "Invalid list filter expression.")
        terms.append(_term(group[1]))
        at = group.end()
        if at < len(stripped):
            joints.add(group[2] or "AND")
    if len(joints) > 1:
        raise invalid("filter", "AND and OR in one expression are not simulated.")
    return Filter(tuple(terms), either=joints == {"OR"})


def _term(text: str) -> Term:
    match = _TERM.fullmatch(text.strip())
    if match is None:
        raise invalid("filter", "Invalid list filter expression.")
    value = match[3].strip()
    if value[:1] in {'"', "'"} and value[-1:] == value[:1]:
        value = value[1:-1]
    return Term(match[1], match[2], value)


def _value(item: Mapping[str, Any], field: str) -> str | None:
    """The text at a dotted path; a label's key may hold no dot."""
    value: Any = item
    for name in field.split("."):
        value = value.get(name) if isinstance(value, Mapping) else None
    if isinstance(value, bool):
        return str(value).lower()
    return None if value is None else str(value)
