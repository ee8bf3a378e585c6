"""Idleness: a tenant's floor, a call that holds idleness off, and the samples for which a lease counted as idle."""

from typing import Annotated

from pydantic import Field

from app.api.schemas.base import Body, Moment, View
from app.api.schemas.gpu_requests import IdleRule
from app.api.schemas.hardware import GROWS
from app.domain import idleness
from app.domain.lease_requests import IdleAction
from app.domain.lease_requests import IdleRule as Rule

_YEAR = 31_536_000
_AFTER = "Seconds of samples in a row in which each GPU is used 5 % or less."
_MAX_KEEP = "How many seconds one call of a member may hold idleness off. Null: any time."


class IdleFloorSetting(IdleRule):
    """A rule for every lease of a tenant. Of a lease's own rule and the floor, the stricter one applies."""

    max_keep_seconds: Annotated[int | None, Field(ge=0, le=_YEAR, description=_MAX_KEEP)] = None


class IdleFloor(View):
    """An operator's rule for every lease of the tenant. A rule that ends leases is stricter than one that notifies."""

    after_seconds: Annotated[int, Field(description=_AFTER)]
    action: Annotated[IdleAction, Field(description=f"`notify`: events report it. `end`: the lease ends. {GROWS}")]
    max_keep_seconds: Annotated[int | None, Field(description=_MAX_KEEP)]


class Keep(Body):
    """Hold idleness off."""

    seconds: Annotated[
        int, Field(ge=60, le=_YEAR, description="The lease does not count as idle for so long from now.")
    ]


class IdleEvidence(View):
    """The samples for which the lease counted as idle, as the agent in its VM sent them."""

    after_seconds: Annotated[int, Field(description=_AFTER)]
    action: Annotated[IdleAction, Field(description=f"The action of the rule. {GROWS}")]
    idle_percent: Annotated[int, Field(description="A GPU with this utilization or less is idle.")]
    since: Annotated[Moment, Field(description="The first of the idle samples in a row.")]
    until: Annotated[Moment, Field(description="The last one.")]
    samples: Annotated[int, Field(description="The number of idle samples in a row.")]
    gpus: Annotated[list[str], Field(description="UUIDs of the GPUs.")]
    at: Annotated[list[Moment], Field(description="The time of each sample, at most of the last 1,440.")]
    percentages: Annotated[
        list[list[int | None]], Field(description="For each sample, the utilization of each GPU in percent.")
    ]


def floor_from_body(body: IdleFloorSetting) -> idleness.IdleFloor:
    """Converts the body to the domain's floor."""
    rule = Rule(after_seconds=body.after_seconds, action=body.action)
    return idleness.IdleFloor(rule=rule, max_keep_seconds=body.max_keep_seconds)
