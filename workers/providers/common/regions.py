"""Failures by region in a listing of several regions, for adapters whose cloud answers all regions in one call."""

from collections.abc import Iterator
from contextlib import contextmanager

from workers.providers.errors import ProviderError


class Regions:
    """The regions of a listing. `failed`: the regions that could not be read, with the error."""

    def __init__(self, asked: frozenset[str]) -> None:
        self._asked = asked
        self.failed: dict[str, ProviderError] = {}

    @property
    def readable(self) -> list[str]:
        """The regions that have not failed, sorted."""
        return sorted(self._asked - self.failed.keys())

    @contextmanager
    def reading(self, region: str) -> Iterator[None]:
        """Records a ProviderError of the block as the failure of the region. Raises it when no other region is left."""
        try:
            yield
        except ProviderError as error:
            self.failed[region] = error
            if not self.readable:
                raise
