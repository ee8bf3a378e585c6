"""Listings of several regions at once, for adapters whose cloud answers all regions in one call."""

from collections.abc import Iterator
from contextlib import contextmanager

from workers.providers.errors import ProviderError


class Regions:
    """The regions that a listing is asked for. `failed`: those that it cannot tell of, with the reason."""

    def __init__(self, asked: frozenset[str]) -> None:
        self._asked = asked
        self.failed: dict[str, ProviderError] = {}

    @property
    def told(self) -> list[str]:
        """Those that have not failed."""
        return sorted(self._asked - self.failed.keys())

    @contextmanager
    def reading(self, region: str) -> Iterator[None]:
        """A ProviderError within is the region's own, unless no other region is left: then it is raised."""
        try:
            yield
        except ProviderError as error:
            self.failed[region] = error
            if not self.told:
                raise
