"""What goes wrong in a run, and how often: drawn from the seed, so that each run has troubles of its own."""

from dataclasses import dataclass, fields, replace
from random import Random
from typing import Self

from tests.simulation.gpus import GpuWeather


@dataclass(frozen=True, slots=True, kw_only=True)
class Weather:
    """Probabilities. Per call to a cloud, per point of a process between its acts, per VM, or per listing."""

    # per call
    throttled: float = 0.0
    unreachable: float = 0.0
    lost_before: float = 0.0
    lost_after: float = 0.0
    server_error: float = 0.0
    slow: float = 0.0
    late: float = 0.0
    answer_late: float = 0.0
    # per point of a process
    killed: float = 0.0
    stalled: float = 0.0
    # per transaction
    database_away: float = 0.0
    # per launch
    no_capacity: float = 0.0
    refused: float = 0.0
    # per batch
    partial: float = 0.0
    silent_slots: float = 0.0
    wrong_index: float = 0.0
    # per VM
    refused_late: float = 0.0
    never_runs: float = 0.0
    never_ready: float = 0.0
    shows_late: float = 0.0
    interrupted: float = 0.0
    vanishes: float = 0.0
    stops: float = 0.0
    copied: float = 0.0
    leaves_over: float = 0.0
    # per listing or read
    truncated: float = 0.0
    zone_silent: float = 0.0
    stale: float = 0.0
    # windows of trouble in the run
    wrong_credentials: float = 0.0
    refused_credentials: float = 0.0
    empty_listings: float = 0.0
    outage: float = 0.0
    restored: float = 0.0
    # how often in the run
    prices_move: float = 0.0
    limits_change: float = 0.0
    scarce: float = 0.0
    # the share of seeds with budgets, with groups, with volumes and with agents
    budgets: float = 0.5
    groups: float = 0.4
    volumes: float = 0.4
    agents: float = 0.5
    # the share of seeds in which a tenant is suspended for a while
    suspended: float = 0.3
    # the share of seeds with a hostile tenant
    hostile: float = 0.5
    # the share of seeds with the durations of production, and of those whose clouds all make several VMs in a call
    usual: float = 0.1
    batching: float = 0.0
    # the share of requests that are for several equal leases, and of leases that are extended, and released
    bursts: float = 0.2
    extended: float = 0.4
    released: float = 0.5
    # the length of the storm and of leases, as a multiple of what the seed draws
    length: float = 1.0
    lasting: float = 1.0
    # landings so late that nobody can still wait for them
    beyond: float = 0.0

    @classmethod
    def drawn(cls, random: Random) -> Self:
        """About half of all troubles, each more or less strong."""
        return cls(**{name: _strength(random, most) for name, most in _MOST.items()})

    def calm(self) -> Self:
        """Nothing goes wrong any more."""
        return replace(self, **dict.fromkeys(_MOST, 0.0))


_MOST = {
    "throttled": 0.1,
    "unreachable": 0.1,
    "lost_before": 0.15,
    "lost_after": 0.3,
    "server_error": 0.1,
    "slow": 0.2,
    "late": 0.3,
    "answer_late": 0.3,
    "killed": 0.004,
    "stalled": 0.004,
    "database_away": 0.005,
    "no_capacity": 0.7,
    "refused": 0.1,
    "refused_late": 0.3,
    "never_runs": 0.1,
    "never_ready": 0.1,
    "shows_late": 0.5,
    "interrupted": 0.6,
    "vanishes": 0.4,
    "stops": 0.2,
    "copied": 0.3,
    "leaves_over": 0.7,
    "truncated": 0.2,
    "zone_silent": 0.3,
    "stale": 0.5,
    "wrong_credentials": 1.0,
    "refused_credentials": 1.0,
    "empty_listings": 1.0,
    "outage": 1.0,
    "restored": 0.6,
    "prices_move": 1.0,
    "limits_change": 1.0,
    "beyond": 0.6,
    "partial": 0.6,
    "silent_slots": 0.4,
    "wrong_index": 0.3,
    "scarce": 1.0,
}


def _strength(random: Random, most: float) -> float:
    chosen, strength = random.random() < 0.45, random.random()
    return round(most * strength, 4) if chosen else 0.0


def only(**troubles: float) -> dict[str, float]:
    """Nothing but this goes wrong, and nobody does what this does not name: no groups, no agents, no extensions."""
    shares = (share.name for kind in (Weather, GpuWeather) for share in fields(kind))
    return {**dict.fromkeys(shares, 0.0), "length": 1.0, "lasting": 1.0, **troubles}
