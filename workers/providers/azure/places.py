"""Zones as gpulease names them: `eastus-1`, and the region itself for what Azure places where it likes.

Azure numbers the zones of each region, and each subscription has its own numbering.
"""

from collections.abc import Sequence


def zone(region: str, zones: Sequence[str] | None) -> str:
    """The zone of a resource with these `zones`."""
    return f"{region}-{zones[0]}" if zones else region


def zones(region: str, name: str) -> dict[str, list[str]]:
    """The member of a request that places a VM in the zone `name`; none for the region as a whole."""
    number = name.removeprefix(f"{region}-")
    return {} if name == region else {"zones": [number]}
