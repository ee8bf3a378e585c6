"""What a run came to: a document with all the evidence, and a short table for people."""

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Any

from bench import report
from tests.crash_matrix.matrix import Case, Place
from tests.crash_matrix.unreached import REASONS
from tests.failpoints.points import names

_KINDS = {
    "twin": "twins",
    "orphan": "orphans",
    "stuck": "stuck",
    "quota": "quota lost",
    "forged": "forged",
    "disk": "disks",
}
"""How a line of `Case.wrong` begins, and its column."""
_SHOWN = 10
"""So many wrong cases are named in the table; the file has all of them."""


def described(places: Collection[Place], cases: Sequence[Case], seconds: float) -> dict[str, Any]:
    """The evidence: a line for each case, and what they come to."""
    reached = {place.point for place in places}
    wrong = [case for case in cases if case.wrong]
    kinds = Counter(line.partition(":")[0] for case in wrong for line in case.wrong)
    unreached = [name for name in names() if name not in reached]
    again = [case for case in cases if case.number]
    return {
        "summary": {
            "machine": report.machine(),
            "commit": report.commit(),
            "points": len(names()),
            "points_reached": len(reached),
            "cases": len(cases),
            "hit": sum(case.hit for case in cases),
            "not_hit": [case.name for case in cases if not case.hit],
            "wrong": len(wrong),
            "kinds_of_wrong": dict(kinds),
            "seconds": round(seconds),
        },
        "actions": {action: _counted([case for case in cases if case.action == action]) for action in _actions(cases)},
        "all": _counted(cases),
        "repeated": {
            f"{action} at {cloud}": _counted(
                [one for one in again if (one.action, one.place.provider) == (action, cloud)]
            )
            for action, cloud in sorted({(str(one.action), one.place.provider) for one in again})
        },
        "points_not_reached": {name: REASONS.get(name.rpartition(":")[0]) for name in unreached},
        "cases": [
            {
                "point": case.place.point,
                "cloud": case.place.provider,
                "action": case.action,
                "scenario": case.scenario,
                "over": case.over,
                "number": case.number,
                "hit": case.hit,
                "wrong": case.wrong,
            }
            for case in cases
        ],
    }


def _actions(cases: Sequence[Case]) -> list[str]:
    return sorted({str(case.action) for case in cases})


def _counted(cases: Sequence[Case]) -> dict[str, int]:
    """A line that names several cases counts once in the columns of kinds."""
    lines = {line for case in cases for line in case.wrong}
    return {
        "cases": len(cases),
        "reached": sum(case.hit for case in cases),
        "wrong": sum(bool(case.wrong) for case in cases),
        **{column: sum(line.startswith(kind) for line in lines) for kind, column in _KINDS.items()},
    }


def table(document: Mapping[str, Any], file: Path) -> str:
    """A screen of text. The rest is in `file`."""
    summary = document["summary"]
    rows = [*(document["repeated"] or document["actions"]).items(), ("all", document["all"])]
    wrong = [case for case in document["cases"] if case["wrong"]]
    named = [f"  {case['point']} {case['action']} {case['cloud']}: {case['wrong'][0]}" for case in wrong[:_SHOWN]]
    unreached: Mapping[str, str | None] = document["points_not_reached"]
    unexplained = [f"  {name}" for name, reason in unreached.items() if reason is None and not document["repeated"]]
    known = (
        f"{summary['points_reached']} of {summary['points']} failpoints have a scenario at these clouds, "
        f"{len(unreached) - len(unexplained)} a reason for having none, {len(unexplained)} neither."
    )
    return "\n".join(
        [
            f"{'action':<18} {' '.join(f'{column:>10}' for column in document['all'])}",
            *(f"{name:<18} {' '.join(f'{number:>10}' for number in row.values())}" for name, row in rows),
            "",
            *([] if document["repeated"] else [known]),
            *unexplained,
            *([f"Wrong, the first {len(named)} of {len(wrong)}:", *named] if wrong else []),
            f"{summary['seconds']} s. Evidence, case by case: {file}",
        ]
    )
