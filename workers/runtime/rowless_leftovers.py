"""What a process remembers of leftovers that no row knows: how long each has been lying there unused."""

from collections.abc import Collection

Place = tuple[str, str]
"""Account and region."""


class RowlessLeftovers:
    """First sights by place. What a look does not show is forgotten, and so is everything when the process ends."""

    def __init__(self) -> None:
        self._first_seen: dict[Place, dict[str, float]] = {}

    def overdue(self, place: Place, ids: Collection[str], *, now: float, grace: float) -> frozenset[str]:
        """Those of `ids`, all that this look shows, that every look for `grace` seconds has shown."""
        before = self._first_seen.get(place, {})
        self._first_seen[place] = {leftover_id: before.get(leftover_id, now) for leftover_id in ids}
        return frozenset(leftover_id for leftover_id, since in self._first_seen[place].items() if since + grace <= now)
