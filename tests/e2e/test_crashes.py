"""A sample of the crash matrix: `make crash-matrix` runs every point with every action at every cloud."""

from tests.crash_matrix.matrix import Case, Place, Stage, batches, run
from tests.e2e.cloud import AWS, Cloud
from tests.e2e.conftest import Planted
from tests.e2e.people import Operator
from tests.e2e.stack import Stack
from tests.failpoints.actions import Action

SAMPLE = (
    ("send.send:launch:after", Action.KILL),
    ("end.finish:commit:before", Action.KILL),
    ("send.record:commit:before", Action.POSTGRES_GONE),
    ("end.finish:commit:after", Action.PERIOD_OVER),
    ("terminate.terminate_each:terminate_sent:after", Action.POSTGRES_GONE),
    ("enter.enter_active:commit:before", Action.HOSTILE),
)

LATE = (
    ("send.send:launch:before", True, True),
    ("terminate.terminate_each:terminate:after", True, True),
    ("observation.watch.watch:get:after", False, False),
)
"""A point, whether it is one of a lease, and whether its answer waits for the end of the lease: else another worker's rest."""

TRIES = 8
"""A case may miss its point: the worker that another case killed leaves the lease to be adopted on another way."""


def test_a_process_that_dies_loses_its_database_or_answers_late_leaves_one_vm_and_then_none(
    stack: Stack, planted: Planted, operator: Operator, cloud: Cloud
) -> None:
    stage = Stage(stack, operator, cloud, [AWS])
    cases = [Case(Place("life", point, AWS, of_lease=True), action) for point, action in SAMPLE]
    cases += [Case(Place("life", point, AWS, of_lease), Action.LATE, over=over) for point, of_lease, over in LATE]
    for _ in range(TRIES):
        for batch in batches([case for case in cases if not case.hit], len(cases)):
            run(stage, batch)
    assert [case.name for case in cases if not case.hit] == []
    assert {case.name: case.wrong for case in cases if case.wrong} == {}
