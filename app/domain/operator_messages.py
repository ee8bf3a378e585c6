"""Messages to the operators of the installation: what they report."""

from collections.abc import Mapping, Sequence
from enum import StrEnum
from typing import Any

FULL = 100
"""Percent. A budget at this threshold is exceeded."""


class MessageKind(StrEnum):
    """What a message reports."""

    ORPHAN = "orphan"
    BRAKE = "brake"
    RECONCILIATION = "reconciliation"
    BUDGET = "budget"


def exceeds_budget(data: Mapping[str, Any]) -> bool:
    """Whether an event `budget.threshold` reports that the whole amount is spent."""
    return int(data["threshold"]) >= FULL


def subject(texts: Sequence[str], installation: str) -> str:
    """The title of one notification with these messages."""
    count = "a message" if len(texts) == 1 else f"{len(texts)} messages"
    return f"gpulease {installation}: {count}"


def body(texts: Sequence[str], dashboard: str | None) -> str:
    """The messages, one a line, and a link where the dashboard's URL is known.

    Messages contain names from clouds. Control characters are replaced, so that no name begins a line of its own.
    """
    link = [] if dashboard is None else [f"{dashboard}#/accounts"]
    return "\n".join([*map(_one_line, texts), *link])


def _one_line(text: str) -> str:
    return "".join(letter if letter.isprintable() else "\N{REPLACEMENT CHARACTER}" for letter in text)
