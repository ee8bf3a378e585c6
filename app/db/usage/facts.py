"""What happened in each step, from the rows of attempts, leases and volumes: the one source of stored and of live figures.

Parameters of every statement: SINCE and UNTIL (starts of steps), SECONDS (the length of a step) and AS_OF. What is
still billed counts until AS_OF.
"""

from collections.abc import Mapping
from typing import Any

from sqlalchemy import (
    CTE,
    ColumnElement,
    Float,
    Integer,
    Numeric,
    Text,
    and_,
    bindparam,
    case,
    cast,
    func,
    literal_column,
    null,
    or_,
    select,
    true,
    union_all,
)

from app.db.core.sql import AnySelect, Time
from app.db.leases.billing import cost, price_segments, seconds
from app.db.schema.tables import attempt, attempt_archive, lease, volume
from app.domain.error_kinds import ErrorKind
from app.domain.leases import AttemptState, LeaseState
from app.domain.usage import UNKNOWN, VOLUME

SINCE, UNTIL, SECONDS, AS_OF = "since", "until", "seconds", "as_of"

MEASURES = (
    "gpu_seconds",
    "volume_gib_seconds",
    "cost",
    "leases_created",
    "leases_ready",
    "leases_failed",
    "capacity_failures",
    "interruptions",
)
"""Columns that are sums."""
PERCENTILES: Mapping[str, float] = {"ready_seconds_p50": 0.5, "ready_seconds_p95": 0.95}

_UNKNOWN: ColumnElement[str] = literal_column(f"'{UNKNOWN}'")
_ONE: ColumnElement[int] = literal_column("1")
_ZERO: ColumnElement[int] = literal_column("0")
_AMOUNTS = frozenset({"gpu_seconds", "volume_gib_seconds", "cost"})
_NUMBERS: Mapping[str, Any] = {name: Numeric if name in _AMOUNTS else Integer for name in MEASURES}

_AS_OF = bindparam(AS_OF, type_=Time)


def steps() -> CTE:
    """The steps: `starts_at`, `ends_at`. A day is 24 hours, whatever the session's time zone."""
    length = func.make_interval(0, 0, 0, 0, 0, 0, bindparam(SECONDS, type_=Float))
    last = bindparam(UNTIL, type_=Time) - length
    starts = (
        func.generate_series(bindparam(SINCE, type_=Time), last, length)
        .table_valued("starts_at", name="series")
        .render_derived()
    )
    starts_at = cast(starts.c.starts_at, Time)
    return select(starts_at.label("starts_at"), (starts_at + length).label("ends_at")).select_from(starts).cte("steps")


def facts(*, archived: bool, owned: Any = None, only_billing: bool = False) -> CTE:
    """A row for each thing that happened in a step. `archived`: attempts of purged leases too.

    `owned`: from a column `tenant_id`, the condition on it; None: every tenant. `only_billing`: what is billed, and its
    cost.
    """
    step, allowed = steps(), owned or (lambda _column: true())
    tables = [attempt, *([attempt_archive] if archived else [])]
    parts = [*(_billed(step, table, allowed) for table in tables), _volumes(step, allowed)]
    if not only_billing:
        parts += [_created(step, allowed), _ready(step, allowed), _failed(step, allowed), _troubled(step, allowed)]
    return union_all(*parts).cte("facts")


def _fact(source: Any, place: tuple[Any, Any, Any], step: CTE, waited: Any = None, **measures: Any) -> AnySelect:
    """`place`: tenant, provider and GPU model."""
    tenant, provider, model = place
    columns = [cast(measures.get(name, _ZERO), _NUMBERS[name]).label(name) for name in MEASURES]
    return select(
        step.c.starts_at,
        tenant.label("tenant_id"),
        func.coalesce(provider, _UNKNOWN).label("provider"),
        func.coalesce(model, _UNKNOWN).label("gpu_model"),
        *columns,
        cast(null() if waited is None else waited, Float).label("waited"),
    ).select_from(source)


def _billed(step: CTE, table: Any, allowed: Any) -> AnySelect:
    """The part of an attempt's billing that lies in the step, a row for each of its prices."""
    hardware = ("gpu_model", "gpu_count") if table is attempt_archive else ("offering",)
    segment = price_segments(table, ("tenant_id", "provider", "billing_ended_at", *hardware))
    began, ended, billed_until = segment.c.starts_at, segment.c.ends_at, segment.c.billing_ended_at
    overlaps = and_(
        began < step.c.ends_at,
        began < _AS_OF,
        or_(ended.is_(None), ended > step.c.starts_at),
        or_(billed_until.is_(None), billed_until > step.c.starts_at),  # follows, and an index has it
        allowed(segment.c.tenant_id),
    )
    first = func.greatest(began, step.c.starts_at)
    last = func.least(func.coalesce(ended, _AS_OF), step.c.ends_at)
    model, gpus = _hardware(segment)
    return _fact(
        step.join(segment, overlaps),
        (segment.c.tenant_id, segment.c.provider, model),
        step,
        gpu_seconds=func.coalesce(gpus, _ZERO) * seconds(first, last),
        cost=cost(segment.c.rate_per_hour, first, last),
    )


def _volumes(step: CTE, allowed: Any) -> AnySelect:
    """The part of a volume's billing that lies in the step. `volume` stands for its GPU model."""
    began, ended = volume.c.billing_started_at, volume.c.billing_ended_at
    overlaps = and_(
        began < step.c.ends_at,
        began < _AS_OF,
        or_(ended.is_(None), ended > step.c.starts_at),
        allowed(volume.c.tenant_id),
    )
    first = func.greatest(began, step.c.starts_at)
    last = func.least(func.coalesce(ended, _AS_OF), step.c.ends_at)
    return _fact(
        step.join(volume, overlaps),
        (volume.c.tenant_id, volume.c.provider, text(VOLUME)),
        step,
        volume_gib_seconds=volume.c.size_gib * seconds(first, last),
        cost=func.coalesce(cost(volume.c.price_per_hour, first, last), _ZERO),
    )


def _hardware(table: Any) -> tuple[Any, Any]:
    if "gpu_model" in table.c:
        return table.c.gpu_model, table.c.gpu_count
    return table.c.offering["gpu"]["model"].astext, cast(table.c.offering["gpu"]["count"].astext, Integer)


_LEASE = (lease.c.tenant_id, lease.c.provider, func.coalesce(lease.c.gpu_model, lease.c.request["gpu"]["model"].astext))


def _during(step: CTE, moment: Any) -> ColumnElement[bool]:
    return and_(moment >= step.c.starts_at, moment < step.c.ends_at, moment <= _AS_OF)


def _created(step: CTE, allowed: Any) -> AnySelect:
    source = step.join(lease, and_(_during(step, lease.c.created_at), allowed(lease.c.tenant_id)))
    return _fact(source, _LEASE, step, leases_created=_ONE)


def _ready(step: CTE, allowed: Any) -> AnySelect:
    """Leases that became ready for the first time: a replaced VM says nothing of how long a request waited."""
    earlier = (
        select(attempt.c.id)
        .where(attempt.c.lease_id == lease.c.id, attempt.c.ready, attempt.c.ended_at < lease.c.ready_at)
        .exists()
    )
    first = or_(lease.c.attempts_count == _ONE, ~earlier)
    source = step.join(lease, and_(_during(step, lease.c.ready_at), first, allowed(lease.c.tenant_id)))
    waited = func.extract("epoch", lease.c.ready_at - lease.c.created_at)
    return _fact(source, _LEASE, step, waited, leases_ready=_ONE)


def _failed(step: CTE, allowed: Any) -> AnySelect:
    failed = lease.c.state == literal_column(f"'{LeaseState.FAILED}'")
    source = step.join(lease, and_(_during(step, lease.c.ended_at), failed, allowed(lease.c.tenant_id)))
    return _fact(source, _LEASE, step, leases_failed=_ONE)


REFUSED = and_(
    attempt.c.state == literal_column(f"'{AttemptState.REFUSED}'"),
    attempt.c.error["class"].astext == literal_column(f"'{ErrorKind.INSUFFICIENT_CAPACITY}'"),
)
"""The provider had no capacity for the attempt."""
INTERRUPTED = attempt.c.vm_reason["interrupted"].astext == literal_column("'true'")
"""The provider took the attempt's VM back."""


def _troubled(step: CTE, allowed: Any) -> AnySelect:
    trouble = and_(_during(step, attempt.c.ended_at), or_(REFUSED, INTERRUPTED), allowed(attempt.c.tenant_id))
    model, _ = _hardware(attempt)
    return _fact(
        step.join(attempt, trouble),
        (attempt.c.tenant_id, attempt.c.provider, model),
        step,
        capacity_failures=case((REFUSED, _ONE), else_=_ZERO),
        interruptions=case((INTERRUPTED, _ONE), else_=_ZERO),
    )


def sums(source: CTE) -> list[ColumnElement[Any]]:
    """MEASURES and PERCENTILES of a group of facts."""
    added = [cast(func.sum(source.c[name]), _NUMBERS[name]).label(name) for name in MEASURES]
    waits = [
        cast(func.percentile_cont(share).within_group(source.c.waited), Float).label(name)
        for name, share in PERCENTILES.items()
    ]
    return [*added, *waits]


def text(value: str) -> ColumnElement[str]:
    """A constant of the program as a literal of SQL, so that partial indexes apply."""
    return literal_column(f"'{value}'", Text)
