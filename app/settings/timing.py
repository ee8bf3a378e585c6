"""GPULEASE_TIMING: the times of protocol, calls and jobs, in one variable, as `settle_seconds=60,claim_seconds=30`.

Installations leave them alone. Simulated clouds and tests shorten them.
"""

from collections.abc import Mapping

TIMING = "GPULEASE_TIMING"


def parse_times(text: str) -> dict[str, str]:
    """Values by name. Raises ValueError naming the entry that is no `name=seconds`, or the name that is there twice."""
    times: dict[str, str] = {}
    for entry in filter(None, (entry.strip() for entry in text.split(","))):
        name, equals, value = entry.partition("=")
        if not equals:
            raise ValueError(f"{entry!r} is not name=seconds; write for example settle_seconds=60,claim_seconds=30")
        name = name.strip()
        if name in times:
            raise ValueError(f"{name} is set twice")
        times[name] = value.strip()
    return times


def timing(**seconds: float) -> dict[str, str]:
    """The variable with these times."""
    return {TIMING: ",".join(f"{name}={value:g}" for name, value in seconds.items())}


def layered(*environments: Mapping[str, str]) -> dict[str, str]:
    """One environment. The later one wins, and of GPULEASE_TIMING the later time of each name."""
    merged: dict[str, str] = {}
    times: dict[str, str] = {}
    for environment in environments:
        merged.update(environment)
        times.update(parse_times(environment.get(TIMING, "")))
    if times:
        merged[TIMING] = ",".join(f"{name}={value}" for name, value in times.items())
    return merged
