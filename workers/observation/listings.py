"""One listing of some regions of an account, split by region."""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime

from workers.providers.errors import ProviderError
from workers.providers.ports import Provider
from workers.providers.types import Vm


@dataclass(frozen=True, slots=True, kw_only=True)
class RegionListing:
    """The part of a finished listing about one region: VMs by id, and the unreachable zones.

    `calls` and `seconds` are those of the whole listing.
    """

    started_at: datetime
    vms: dict[str, Vm]
    unreachable: frozenset[str]
    calls: int
    seconds: float


class AccountListing:
    """A finished listing of some regions. Raises ProviderError when the listing fails before its end."""

    def __init__(
        self,
        provider: Provider,
        regions: frozenset[str],
        installation: str,
        *,
        started_at: datetime,
        monotonic: Callable[[], float],
    ) -> None:
        self._started_at = started_at
        self._vms: dict[str, dict[str, Vm]] = {region: {} for region in regions}
        self._unreachable: frozenset[str] = frozenset()
        self._failed: dict[str, ProviderError] = {}
        self._calls = 0
        start = monotonic()
        for page in provider.list(regions, installation):
            self._calls += 1
            self._unreachable |= page.unreachable
            self._failed |= page.failed
            for vm in page.vms:
                self._vms[vm.region][vm.id] = vm
        self._seconds = monotonic() - start

    def of(self, region: str) -> RegionListing:
        """The part of the listing about a region. Raises the ProviderError with which that region's part failed."""
        if region in self._failed:
            raise self._failed[region]
        return RegionListing(
            started_at=self._started_at,
            vms=self._vms[region],
            unreachable=self._unreachable,
            calls=self._calls,
            seconds=self._seconds,
        )
