"""Equal leases are placed together: one transaction plans an attempt of each, at the offering that all would try first."""

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from app.domain.leases import LeaseState
from app.domain.offerings import Offering, OfferingKey
from workers.lifecycle.steps.batch_plan import most_together
from workers.lifecycle.steps.context import ClaimLostError, StepContext
from workers.lifecycle.steps.place import first_choice
from workers.lifecycle.steps.plan import DearerThanQuotedError, DoesNotFitError, store_attempts
from workers.lifecycle.steps.readiness import NotReadyError
from workers.lifecycle.steps.usable_image import usable_image
from workers.providers.errors import ProviderError
from workers.providers.types import Image
from workers.runtime.bulkheads import CrowdedError


@dataclass(frozen=True, slots=True)
class PlacementKey:
    """All that a placement depends on, but a lease's own times and its startup script."""

    tenant_id: str
    n: int
    wish: str
    offering_key: OfferingKey
    offering: Offering = field(compare=False)


def alike(ctx: StepContext) -> PlacementKey | None:
    """What a lease to be placed has in common with others. None: it is placed alone.

    A lease that has tried an offering in this pass is placed alone, since its errors are its own. So is a lease whose
    first choice launches each VM with a call of its own. So is one whose placement calls the cloud: a cloud that hangs
    must not delay the leases of another.
    """
    if ctx.lease.state is not LeaseState.QUEUED or ctx.row.launches_stopped is not None:
        return None
    offering = first_choice(ctx)
    if offering is None or most_together(ctx.runtime, offering.key) == 1:
        return None
    account, driver = offering.key.account, offering.type.gpu.driver
    if not ctx.runtime.accounts.asks_nothing(account, offering.key.region, ctx.lease.request.image, driver):
        return None
    return PlacementKey(ctx.lease.tenant_id, ctx.lease.attempts_count, _wish(ctx.row), offering.key, offering)


def _wish(row: Any) -> str:
    group = (row.lease_group_id, row.lease_group_pool, row.lease_group_retreat)
    return json.dumps([{**row.lease_request, "name": None}, row.lease_labels, row.lease_key_id, group], sort_keys=True)


def place_each(leases: Sequence[StepContext], offering: Offering) -> list[StepContext]:
    """Plans the next attempt of each lease. Returns those of which one is stored. Each of the others is placed alone.

    When something keeps them from the offering, the placement of each lease alone records the reason.
    """
    try:
        image = usable_image(leases[0], offering)
        return store_attempts(leases, offering, image) if isinstance(image, Image) else []
    except (ClaimLostError, CrowdedError, DearerThanQuotedError, DoesNotFitError, NotReadyError, ProviderError):
        return []
