"""What the control API needs to know of each simulated cloud, given by its front."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass

from cloudsim.control.models import PlantBody
from cloudsim.world import World


@dataclass(frozen=True, slots=True)
class Cloud:
    """`operations` can be given faults, `actions` can be denied, `quotas` can be set, `plant` makes VMs that no call made.

    `default_account`: whose, where a control call names no account.
    """

    operations: Collection[str]
    actions: Collection[str]
    quotas: Collection[str]
    plant: Callable[[World, PlantBody], Iterator[str]]
    default_account: str
