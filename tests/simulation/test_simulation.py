"""A sample of the simulation: docs/simulation.md tells how to run more of it."""

import time

from tests.simulation.database import Clocked
from tests.simulation.world import Outcome, simulate

_SECONDS = 2.0
_FIRST = 1
_OTHERS = range(1001, 1200)
"""The first of them has groups, batches and agents."""


def test_a_sample_finds_nothing_and_replays_exactly(clocked: Clocked) -> None:
    """A seed, the same once more, and then as many others as fit the time: until one has led to a VM."""
    began = time.monotonic()
    first = well(clocked, _FIRST)
    assert simulate(clocked, _FIRST) == first, "the same seed did something else"
    machines = 0
    for seed in _OTHERS:
        machines += well(clocked, seed).machines
        if machines and time.monotonic() - began > _SECONDS:
            return
    raise AssertionError("no seed has led to a VM")


def well(clocked: Clocked, seed: int) -> Outcome:
    """What a seed led to, without a violation; its trace is shown when there is one."""
    outcome = simulate(clocked, seed)
    trace = "\n".join(outcome.lines[-60:])
    again = f"python -m tests.simulation --seeds {seed}"
    assert outcome.violation is None, f"{trace}\nseed {seed}: {outcome.violation}\nagain: {again}"
    return outcome
