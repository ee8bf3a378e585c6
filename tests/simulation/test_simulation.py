"""A sample of the simulation: docs/simulation.md tells how to run more of it."""

import time

from tests.simulation.database import Clocked
from tests.simulation.regressions import SEEDS
from tests.simulation.world import Outcome, simulate

_SECONDS = 20.0
_FRESH = range(1000, 1200)


def test_no_seed_of_a_sample_finds_anything(clocked: Clocked) -> None:
    """Those that once found something, and then as many as fit the time."""
    began, machines = time.monotonic(), 0
    for seed in [*SEEDS, *_FRESH]:
        outcome = simulate(clocked, seed)
        assert outcome.violation is None, told(outcome)
        machines += outcome.machines
        if seed not in SEEDS and time.monotonic() - began > _SECONDS:
            break
    assert machines


def told(outcome: Outcome) -> str:
    trace = "\n".join(outcome.lines[-60:])
    again = f"python -m tests.simulation --seeds {outcome.seed}"
    return f"{trace}\nseed {outcome.seed}: {outcome.violation}\nagain: {again}"


def test_a_seed_replays_exactly_also_after_others_have_run(clocked: Clocked) -> None:
    first = simulate(clocked, 7)
    simulate(clocked, 1)
    again = simulate(clocked, 7)
    assert again.lines == first.lines
    assert again == first
