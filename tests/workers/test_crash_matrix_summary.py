"""A run of the crash matrix ends with a screen of text; all the evidence is in the file that it names."""

import json
from pathlib import Path

from tests.crash_matrix.matrix import Case, Place, batches
from tests.crash_matrix.scenarios import SCENARIOS
from tests.crash_matrix.summary import described, table
from tests.crash_matrix.turns import repeated, turns
from tests.crash_matrix.unreached import REASONS
from tests.failpoints.actions import Action
from tests.failpoints.points import names

FILE = Path("/evidence.json")
PLACES = [Place("life", point, "aws", of_lease=True) for point in names()]
CASES = [Case(place, action, hit=action is not Action.KILL) for place in PLACES for action in Action]


def test_the_table_fits_a_screen_however_many_cases_there_are() -> None:
    for number, case in enumerate(CASES):
        case.wrong = [f"orphan: {number}"] * 50 if number % 2 else []
    text = table(described(PLACES, CASES, 3600.0), FILE)
    lines = text.splitlines()
    assert len(lines) < 30
    assert max(map(len, lines)) <= 140
    assert lines[0].split()[:7] == ["action", "cases", "reached", "wrong", "twins", "orphans", "stuck"]
    assert ["kill", str(len(PLACES)), "0"] in [line.split()[:3] for line in lines]
    assert ["late", str(len(PLACES)), str(len(PLACES))] in [line.split()[:3] for line in lines]
    assert str(FILE) in lines[-1]


def test_the_evidence_has_every_case_and_why_a_point_was_not_reached() -> None:
    document = json.loads(json.dumps(described(PLACES[:1], CASES[:5], 1.0)))
    assert [case["point"] for case in document["cases"]] == [names()[0]] * 5
    assert set(document["points_not_reached"]) == set(names()[1:])


def test_a_repeated_point_has_a_row_for_each_cloud_and_counts_a_line_once() -> None:
    point = "batches.send._call:launch_batch:after"
    cases = repeated([point], ["aws", "gcp"], [Action.KILL, Action.LATE], 4)
    assert len({case.name for case in cases}) == 8
    assert [len(batch) for batch in turns(cases, 3)] == [3, 1, 3, 1]
    for case in cases[:3]:
        case.hit, case.wrong = True, ["orphan: of both", f"twin: {case.number}"]
    rows = [line.split() for line in table(described([], cases, 1.0), FILE).splitlines()[1:4]]
    assert rows == [
        ["kill", "at", "aws", "4", "3", "3", "3", "1", "0", "0", "0", "0"],
        ["kill", "at", "gcp", "4", "0", "0", "0", "0", "0", "0", "0", "0"],
        ["all", "8", "3", "3", "3", "1", "0", "0", "0", "0"],
    ]


def test_cases_side_by_side_arm_points_of_their_own() -> None:
    """A point of an account has one file for all actions. A point of a lease has one for each case."""
    places = [Place("life", point, "aws", of_lease=False) for point in names()[:5]]
    cases = [Case(place, action) for place in [*places, *PLACES[:5]] for action in Action]
    made = list(batches(cases, 30))
    assert sum(map(len, made)) == len(cases)
    for batch in made:
        armed = [case.place.point for case in batch if not case.place.of_lease]
        assert len(armed) == len(set(armed))


def test_only_points_that_there_are_have_a_reason_for_having_no_scenario() -> None:
    assert set(REASONS) <= {name.rpartition(":")[0] for name in names()}
    assert all(scenario.__name__ == name for name, scenario in SCENARIOS.items())
