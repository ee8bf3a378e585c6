"""What was tried, how it went, and how that is shown."""

from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, field
from enum import StrEnum
from typing import Any

_LONGEST_DETAIL = 600


class Outcome(StrEnum):
    """`NOT_TRIED`: this machine lacks something, which the result names."""

    OK = "ok"
    FAILED = "FAILED"
    NOT_TRIED = "not tried"


@dataclass(frozen=True, kw_only=True)
class Result:
    """One line of the table. `detail` is for people, `figures` for machines."""

    part: str
    what: str
    outcome: Outcome
    detail: str = ""
    seconds: float = 0.0
    figures: dict[str, Any] = field(default_factory=dict)

    def as_json(self) -> dict[str, Any]:
        return {**asdict(self), "outcome": str(self.outcome), "seconds": round(self.seconds, 1)}


def read_results(documents: Iterable[dict[str, Any]]) -> list[Result]:
    """The reverse of `as_json`."""
    return [Result(**(document | {"outcome": Outcome(document["outcome"])})) for document in documents]


def table(results: Sequence[Result]) -> str:
    """A line for each result; what was not tried says why. Of a long detail the beginning: the evidence has all of it."""
    lines = []
    for result in results:
        detail = result.detail if len(result.detail) <= _LONGEST_DETAIL else f"{result.detail[:_LONGEST_DETAIL]} …"
        why = f"because {detail}" if result.outcome is Outcome.NOT_TRIED else detail
        lines.append(f"{result.outcome:<9}  {result.part:<8}  {result.what}{f': {why}' if why else ''}")
    counts = {outcome: sum(result.outcome is outcome for result in results) for outcome in Outcome}
    seconds = sum(result.seconds for result in results)
    total = ", ".join(f"{count} {outcome}" for outcome, count in counts.items() if count)
    return "\n".join([*lines, f"{total or 'nothing was tried'}; {seconds:.0f} s"])


def exit_code(results: Sequence[Result]) -> int:
    """1 when anything failed, or when nothing could be tried."""
    tried = [result for result in results if result.outcome is not Outcome.NOT_TRIED]
    return 1 if not tried or any(result.outcome is Outcome.FAILED for result in tried) else 0
