"""docs/states.md and the code say the same."""

import re
from dataclasses import fields
from pathlib import Path

from app.api.schemas.lease_serializer import outcome
from app.domain.events import EVENT_DATA
from app.domain.leases import TRANSITIONS, AttemptState, LeaseState
from app.domain.reasons import RETRYABLE, Origin, ReasonCode

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs" / "states.md").read_text(encoding="utf-8")


def table(title: str) -> list[list[str]]:
    """The cells of the first table under a heading, without its head."""
    section = PAGE.partition(f"## {title}\n")[2].partition("\n## ")[0]
    rows = [line.strip("|").split("|") for line in section.splitlines() if line.startswith("|")]
    return [[cell.strip() for cell in row] for row in rows[2:]]


def by_name(title: str) -> dict[str, list[str]]:
    """The rows of a table by their first cell, each once."""
    rows = table(title)
    names = [row[0].strip("`") for row in rows]
    assert sorted(set(names)) == sorted(names)
    return dict(zip(names, rows, strict=True))


def words(cell: str) -> set[str]:
    return set(re.findall(r"`([a-z0-9_.]+)`", cell))


def test_the_states_and_their_transitions_are_told() -> None:
    told = {name: words(row[2]) for name, row in by_name("States of a lease").items()}
    assert told == {str(state): {str(one) for one in TRANSITIONS[state]} for state in LeaseState}


def test_every_reason_is_told() -> None:
    told = {name: row[1] for name, row in by_name("Reasons").items()}
    assert told == {str(code): "yes" if code in RETRYABLE else "no" for code in ReasonCode}
    assert words(PAGE.partition("`origin` is the party that caused it: ")[2].partition("\n")[0]) == {
        str(one) for one in Origin
    }


def test_every_attempt_state_is_told_with_its_outcome() -> None:
    told = [(row[0].split("`")[1], "without" in row[0], row[1].strip("`")) for row in table("Attempts")]
    assert {state for state, _, _ in told} == {str(state) for state in AttemptState}
    for state, without_instance, word in told:
        assert outcome(state, None if without_instance else "i-1") == word


def test_every_event_type_is_told_with_its_data() -> None:
    told = {name: words(row[2]) for name, row in by_name("Events").items()}
    assert told == {str(kind): {one.name for one in fields(data)} for kind, data in EVENT_DATA.items()}
