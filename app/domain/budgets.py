"""Budgets: a quota of money over a period, and what a lease counts for in it.

A live lease counts with the most that it costs in any one period. In the present one, that is what it has cost there and
may still cost. In a later one, it is its rate for a part of its term. `app.db.tenancy.commitments`
states the same in SQL. A test feeds both the same values.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from decimal import ROUND_CEILING, Decimal
from enum import StrEnum

from app.domain.billing import cost

PREFIX = "budget:"
"""The resource of a budget's row of quota is this and the budget's id."""
MOST = 1000
"""Budgets of a tenant, of every kind."""
MOST_SHARED = 100
"""Budgets of a tenant that several keys share: those of the kinds tenant and label."""
MOST_OF_KEY = 5
"""Budgets of an API key. No more than these and MOST_SHARED count a lease."""
MOST_THRESHOLDS = 10
HIGHEST_THRESHOLD = 1000
DEFAULT_THRESHOLDS = (50, 80, 100)

_STORED = Decimal("0.000001")
_DIVIDED = Decimal("0.000000001")
_NOTHING = Decimal(0)


class BudgetKind(StrEnum):
    """Whose leases a budget counts: those of a tenant, of an API key, or those with a label."""

    TENANT = "tenant"
    KEY = "key"
    LABEL = "label"


class Period(StrEnum):
    """The time over which a budget counts. Days and months are those of UTC. `lifetime` begins with the budget."""

    DAY = "day"
    MONTH = "month"
    LIFETIME = "lifetime"


class WhenExceeded(StrEnum):
    """What happens at the amount. `notify`: events. `refuse`: no more leases. `end`: leases end as well."""

    NOTIFY = "notify"
    REFUSE = "refuse"
    END = "end"


class SetBy(StrEnum):
    """The role that owns a budget. Admins do not change what operators set."""

    OPERATOR = "operator"
    ADMIN = "admin"


def resource_of(budget_id: str) -> str:
    """The resource of the budget's row of quota."""
    return PREFIX + budget_id


def is_budget(resource: str) -> bool:
    """Whether a row of quota belongs to a budget."""
    return resource.startswith(PREFIX)


def limit_of(amount: Decimal, when_exceeded: WhenExceeded) -> Decimal | None:
    """The limit of the budget's row of quota. None: it refuses nothing."""
    return None if when_exceeded is WhenExceeded.NOTIFY else amount


# --- periods ----------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class PeriodSpan:
    """A period of a budget. `ends_at` is not part of it; None: it never ends."""

    starts_at: datetime
    ends_at: datetime | None


def span_at(period: Period, moment: datetime) -> PeriodSpan:
    """The period that contains `moment`. A lifetime begins at `moment`."""
    if period is Period.LIFETIME:
        return PeriodSpan(moment, None)
    day = moment.astimezone(UTC).replace(hour=0, minute=0, second=0, microsecond=0)
    if period is Period.DAY:
        return PeriodSpan(day, day + timedelta(days=1))
    first = day.replace(day=1)
    return PeriodSpan(first, (first + timedelta(days=31)).replace(day=1))


# --- scopes -----------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class Scope:
    """Which leases of its tenant a budget counts. `label`: key and value."""

    kind: BudgetKind
    key_id: str | None = None
    label: tuple[str, str] | None = None

    def counts(self, *, key_id: str | None, labels: Mapping[str, str]) -> bool:
        """Whether a lease that this key created, with these labels, is counted."""
        match self.kind:
            case BudgetKind.TENANT:
                return True
            case BudgetKind.KEY:
                return key_id == self.key_id
            case BudgetKind.LABEL:
                return self.label is not None and labels.get(self.label[0]) == self.label[1]


# --- commitment -------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class Spending:
    """What a lease has cost and may cost. Amounts are USD.

    `accrued`: all of its cost until now. `base`: the part of it that the budget's present period does not count.
    `rate_per_hour`: of the running attempt, or of what the lease waits for. `ends_at`: of `expected_end`.
    """

    accrued: Decimal
    base: Decimal
    rate_per_hour: Decimal
    ends_at: datetime
    max_cost: Decimal | None = None

    @property
    def counted(self) -> Decimal:
        """USD that the lease has cost in the period. Rounded up, as it is stored."""
        return _stored(max(self.accrued - self.base, _NOTHING))


RELEASE_TAKES = timedelta(minutes=10)
"""How long the provider may take to confirm an end before a lease commits as much time again."""


def expected_end(ends_at: datetime, release_requested_at: datetime | None, now: datetime) -> datetime:
    """`Spending.ends_at` of a lease. `ends_at`: its effective end.

    A lease that is released ends within `RELEASE_TAKES`. While it lasts longer, that time is committed again and again: what
    it has cost counts in any case. A constant end within each of these times keeps its commitment from growing.
    """
    if release_requested_at is None:
        return ends_at
    passed = max(now - release_requested_at, timedelta(0)) // RELEASE_TAKES
    return min(ends_at, release_requested_at + RELEASE_TAKES * (passed + 1))


def reached_spans(period: Period, now: datetime) -> tuple[PeriodSpan, ...]:
    """The period of `now` and the two after it; of a lifetime, the one that there is.

    The longest part of a term in any later period lies in one of the two: of two months in succession, one has 31 days.
    """
    present = span_at(period, now)
    if present.ends_at is None:
        return (present,)
    following = span_at(period, present.ends_at)
    assert following.ends_at is not None
    return present, following, span_at(period, following.ends_at)


def commitment(spending: Spending, period: Period, now: datetime) -> Decimal:
    """USD that the lease holds of a budget: the most that it costs in any one period that its term reaches.

    In the present period that is its cost so far, and its rate until its end or the period's. In a later one it is its
    rate for the part of the term there. A cap of the lease's cost bounds both. Rounded up to a millionth. At a constant
    rate the result never grows, also where a period ends. `now`: or the start of the period that was begun, if later.
    """
    present, *following = reached_spans(period, now)
    so_far = max(spending.accrued - spending.base, _NOTHING)
    total = so_far + cost(spending.rate_per_hour, _end_in(present, spending.ends_at) - now)
    later = max(
        (cost(spending.rate_per_hour, _end_in(span, spending.ends_at) - span.starts_at) for span in following),
        default=_NOTHING,
    )
    if spending.max_cost is not None:
        total = min(total, spending.max_cost - spending.base)
        later = min(later, spending.max_cost - spending.accrued)
    return _stored(max(so_far, total, later))


def _end_in(span: PeriodSpan, ends_at: datetime) -> datetime:
    return ends_at if span.ends_at is None else min(ends_at, span.ends_at)


def _stored(amount: Decimal) -> Decimal:
    """Rounded up, but for what a division adds to an exact amount."""
    return amount.quantize(_DIVIDED).quantize(_STORED, rounding=ROUND_CEILING)


# --- thresholds -------------------------------------------------------------------------------------------


def reached(thresholds: Iterable[int], spent: Decimal, amount: Decimal) -> tuple[int, ...]:
    """The thresholds (percent of `amount`) that `spent` has reached, ascending. Nothing spent reaches none."""
    return tuple(sorted(threshold for threshold in thresholds if spent > 0 and spent * 100 >= amount * threshold))


def without_event(
    thresholds: Iterable[int], highest_with_event: int, spent: Decimal, amount: Decimal
) -> tuple[int, ...]:
    """The thresholds of `reached` that have no event in this period. `highest_with_event`: the highest one that has an event."""
    return tuple(threshold for threshold in reached(thresholds, spent, amount) if threshold > highest_with_event)


def highest_after_change(thresholds: Iterable[int], highest_with_event: int, spent: Decimal, amount: Decimal) -> int:
    """`highest_with_event` after a change of the amount or the thresholds.

    A threshold that is no longer reached gets another event when it is reached again.
    """
    return min(highest_with_event, max(reached(thresholds, spent, amount), default=0))


# --- the action `end` -------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class Holder:
    """A live lease that a budget counts. `counted` and `committed`: see `Spending.counted` and `commitment`."""

    lease_id: str
    rate_per_hour: Decimal
    counted: Decimal
    committed: Decimal
    ending: bool


def to_release(holders: Sequence[Holder], *, spent: Decimal, amount: Decimal) -> tuple[str, ...]:
    """The leases to end until the commitment fits into `amount`: those with the highest rate first, then the newest.

    A lease that ends counts with what it has cost. `spent`: USD of leases that ended in the period.
    """
    total = spent + sum((holder.counted if holder.ending else holder.committed for holder in holders), start=_NOTHING)
    chosen = []
    running = [holder for holder in holders if not holder.ending]
    for holder in sorted(running, key=lambda holder: (holder.rate_per_hour, holder.lease_id), reverse=True):
        if total <= amount:
            break
        chosen.append(holder.lease_id)
        total -= holder.committed - holder.counted
    return tuple(chosen)
