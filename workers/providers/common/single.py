"""The batch methods of a provider whose create call takes one VM."""

from collections.abc import Mapping
from typing import Any, NoReturn

from workers.providers.types import BatchLaunched, BatchResult, Params, Vm


class SingleLaunches:
    """`BatchLaunching` for `Limits.batch == 1`: a call of one of these methods is an error of the caller."""

    def plan_batch(self, *_: Any, **_named: Any) -> Params:
        """Never called."""
        _no_batches()

    def launch_batch(self, *_: Any, **_named: Any) -> BatchLaunched:
        """Never called."""
        _no_batches()

    def find_batch(self, *_: Any, **_named: Any) -> Mapping[int, Vm]:
        """Never called."""
        _no_batches()

    def label_slots(self, *_: Any, **_named: Any) -> BatchResult:
        """Never called."""
        _no_batches()


def _no_batches() -> NoReturn:
    raise AssertionError("limits.batch is 1: the provider creates one VM with each call")
