"""Reports of costs: the buckets of time that they have, and what they are divided by. Buckets are those of UTC."""

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from enum import StrEnum

from app.domain import labels
from app.domain.usage import UsageStep

MOST_GROUPINGS = 2
LONGEST_HOURLY_RANGE = timedelta(days=31)
LABEL = "label:"
"""Prefix of a grouping by the value of a label."""


class CostBucket(StrEnum):
    """The length of a bucket of a report."""

    HOUR = "hour"
    DAY = "day"
    MONTH = "month"

    @property
    def step(self) -> UsageStep:
        """The stored sums that make up a bucket."""
        return UsageStep.HOUR if self is CostBucket.HOUR else UsageStep.DAY

    @property
    def default_range(self) -> timedelta:
        """How far a report reaches back unless it says more."""
        return {CostBucket.HOUR: timedelta(days=1), CostBucket.DAY: timedelta(days=30)}.get(self, timedelta(days=334))

    def floor(self, moment: datetime) -> datetime:
        """The start of the bucket that contains `moment`."""
        start = moment.astimezone(UTC).replace(minute=0, second=0, microsecond=0)
        if self is CostBucket.HOUR:
            return start
        return start.replace(hour=0) if self is CostBucket.DAY else start.replace(hour=0, day=1)

    def after(self, start: datetime) -> datetime:
        """The start of the bucket after the one that begins at `start`."""
        if self is CostBucket.MONTH:
            return (start + timedelta(days=32)).replace(day=1)
        return start + self.step.length

    def ceil(self, moment: datetime) -> datetime:
        """The first start of a bucket that is not before `moment`."""
        start = self.floor(moment)
        return start if start == moment else self.after(start)


class CostDimension(StrEnum):
    """What a report may be divided by, besides a label."""

    TENANT = "tenant"
    PROVIDER = "provider"
    REGION = "region"
    GPU_MODEL = "gpu_model"
    MARKET = "market"
    INSTANCE_TYPE = "instance_type"
    LEASE = "lease"


@dataclass(frozen=True, slots=True)
class CostGrouping:
    """`dimension` None: by the value of the label `label`."""

    dimension: CostDimension | None
    label: str = ""

    @property
    def name(self) -> str:
        """As in the request: `tenant`, `label:team`."""
        return LABEL + self.label if self.dimension is None else str(self.dimension)

    @property
    def needs_records(self) -> bool:
        """Whether only the records know it, because the sums are not divided by it."""
        return self.dimension in {None, CostDimension.LEASE}


def group_name(place: int) -> str:
    """The name of the column with the values of a grouping."""
    return f"group_{place}"


def parse_groupings(text: str) -> tuple[CostGrouping, ...]:
    """The groupings in a list such as `tenant,label:team`. Raises ValueError with what is wrong."""
    names = text.split(",") if text else []
    if len(names) > MOST_GROUPINGS or len(set(names)) < len(names):
        raise ValueError(f"must name at most {MOST_GROUPINGS} different groupings")
    return tuple(_grouping(name) for name in names)


def _grouping(name: str) -> CostGrouping:
    if name.startswith(LABEL):
        key = name.removeprefix(LABEL)
        if not labels.is_key(key):
            raise ValueError(f"the key of a label {labels.KEY_RULE}")
        return CostGrouping(None, key)
    try:
        return CostGrouping(CostDimension(name))
    except ValueError:
        known = ", ".join(CostDimension)
        raise ValueError(f"must be of {known}, {LABEL}KEY; at most {MOST_GROUPINGS}, separated by a comma") from None


@dataclass(frozen=True, slots=True, kw_only=True)
class CostPeriod:
    """A range of whole buckets: `since` and `until` are starts of buckets, `until` is not part of it."""

    bucket: CostBucket
    since: datetime
    until: datetime
