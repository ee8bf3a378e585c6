"""Use over time: the steps of a report, and which stored sum answers which question. Hours and days are those of UTC."""

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from enum import StrEnum

ALL = "*"
"""In a stored sum: the sum covers every tenant, provider or GPU model."""
UNKNOWN = "unknown"
"""The provider or GPU model of a lease that has no offering."""
VOLUME = "volume"
"""The instance type of usage records of volumes."""
OTHER = "other"
"""The group that sums up all groups beyond the largest ones."""

KEPT_MONTHS = 13
"""Stored sums are deleted after so many months."""
RECORDS_KEPT_DAYS = 400
"""Usage records, and the sums of their costs, are deleted after so many days."""


class UsageStep(StrEnum):
    """The length of a step of a report."""

    HOUR = "hour"
    DAY = "day"

    @property
    def length(self) -> timedelta:
        """How long a step is."""
        return timedelta(hours=1) if self is UsageStep.HOUR else timedelta(days=1)

    @property
    def longest_range(self) -> timedelta:
        """The longest range of one report."""
        return timedelta(days=31) if self is UsageStep.HOUR else timedelta(days=400)

    def floor(self, moment: datetime) -> datetime:
        """The start of the step that contains `moment`."""
        start = moment.astimezone(UTC).replace(minute=0, second=0, microsecond=0)
        return start if self is UsageStep.HOUR else start.replace(hour=0)

    def ceil(self, moment: datetime) -> datetime:
        """The first start of a step that is not before `moment`."""
        start = self.floor(moment)
        return start if start == moment else start + self.length


class UsageGrouping(StrEnum):
    """What a report is divided by."""

    NONE = "none"
    TENANT = "tenant"
    PROVIDER = "provider"
    GPU_MODEL = "gpu_model"


@dataclass(frozen=True, slots=True, kw_only=True)
class UsagePeriod:
    """A range of whole steps: `since` and `until` are starts of steps, `until` is not part of it."""

    step: UsageStep
    since: datetime
    until: datetime

    def live_since(self, rolled_until: datetime | None) -> datetime:
        """The first step that is not stored in full. `rolled_until` None: nothing is stored."""
        if rolled_until is None:
            return self.since
        return min(max(self.step.floor(rolled_until), self.since), self.until)

    def covered(self, starts_at: datetime, as_of: datetime) -> timedelta:
        """How much of a step is over at `as_of`."""
        return max(min(starts_at + self.step.length, as_of) - starts_at, timedelta(0))


def record_key(attempt_id: str, starts_at: datetime, revision: int) -> str:
    """What identifies a usage record to receivers, so that they count it once."""
    return f"{attempt_id}-{starts_at.astimezone(UTC):%Y%m%d%H}-{revision}"
