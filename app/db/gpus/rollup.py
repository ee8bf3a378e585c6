"""Sums of samples: the five-minute series and the hourly means of an hour that is over."""

from datetime import datetime
from typing import Any

from sqlalchemy import TextClause, text

from app.db.core.prepared import Bound
from app.domain.gpus.samples import GPU_SERIES, LEASE_SERIES

PROGRESS = text("SELECT samples_rolled_until, now() AS now FROM usage_progress")

MAINTAIN_PARTITIONS = text("SELECT maintain_gpu_partitions(:keep_days)")
"""The number of partitions that were made or dropped. Raises when a reader holds one for two seconds."""

FIRST = text("SELECT min(at) FROM gpu_sample")
"""Asked once in the life of an installation."""

SHORT = text("SET LOCAL statement_timeout = '10s'")
"""First statement of each transaction that sums up."""

_REPORTING = text(
    "SELECT lease_id, not_summed IS NOT NULL AS has_failed FROM gpu_latest WHERE sampled_at >= :since ORDER BY lease_id"
)
_LEAVE_OUT = text(
    """
    UPDATE gpu_latest SET not_summed = jsonb_build_object(
        'hours', coalesce(CAST(not_summed ->> 'hours' AS integer), 0) + 1,
        'since', coalesce(CAST(not_summed ->> 'since' AS timestamptz), :since), 'error', CAST(:error AS text))
    WHERE lease_id = :lease_id
    """
)
_MOVE = text(
    "UPDATE usage_progress SET samples_rolled_until = :until WHERE samples_rolled_until IS NULL OR samples_rolled_until < :until"
)

_MEANS = ", ".join(f"CAST(avg({name}) AS smallint) AS {name}" for name in LEASE_SERIES)
_STEPS = ", ".join(f"array_agg(s.{name} ORDER BY g.step) AS {name}" for name in LEASE_SERIES)
_NAMES = ", ".join(LEASE_SERIES)
_GPU_MEANS = ", ".join(
    f"CAST(avg(p.gpu_values[{n}][u.place]) AS smallint) AS {name}" for n, name in enumerate(GPU_SERIES, 1)
)
_GPU_STEPS = ", ".join(f"array_agg(s.{name} ORDER BY g.step) AS {name}" for name in GPU_SERIES)
_GPU_ROWS = ", ".join(f"({n}, {name})" for n, name in enumerate(GPU_SERIES, 1))
_GPU_HOUR = ", ".join(f"CAST(avg(p.gpu_values[{n}][u.place]) AS smallint)" for n, _ in enumerate(GPU_SERIES, 1))
_MOST_GPUS = 64
"""Of a lease in one hour."""

_CLOSE = text(
    f"""
    WITH points AS MATERIALIZED (
        SELECT lease_id, tenant_id, idle, CAST(floor(extract(epoch FROM at - :since) / 300) AS integer) AS step, {_NAMES}, uuids,
            gpu_values
        FROM gpu_sample WHERE at >= :since AND at < :until AND lease_id = ANY (:leases)),
    hours AS MATERIALIZED (
        SELECT lease_id, min(tenant_id) AS tenant_id, count(*) AS samples, count(*) FILTER (WHERE idle) AS idle_samples, {_MEANS}
        FROM points GROUP BY lease_id),
    steps AS (SELECT lease_id, step, {_MEANS} FROM points GROUP BY lease_id, step),
    grid AS (SELECT lease_id, step FROM hours, generate_series(0, 11) AS step),
    series AS (
        SELECT g.lease_id, {_STEPS} FROM grid g LEFT JOIN steps s ON s.lease_id = g.lease_id AND s.step = g.step
        GROUP BY g.lease_id),
    gpus AS MATERIALIZED (
        SELECT *, row_number() OVER (PARTITION BY lease_id ORDER BY place, uuid) AS row FROM (
            SELECT p.lease_id, u.uuid, min(u.place) AS place, ARRAY[{_GPU_HOUR}] AS means
            FROM points p, unnest(p.uuids) WITH ORDINALITY AS u (uuid, place) GROUP BY p.lease_id, u.uuid) each),
    gpu_steps AS (
        SELECT p.lease_id, u.uuid, p.step, {_GPU_MEANS}
        FROM points p, unnest(p.uuids) WITH ORDINALITY AS u (uuid, place) GROUP BY p.lease_id, u.uuid, p.step),
    gpu_series_rows AS (
        SELECT g.lease_id, g.row, {_GPU_STEPS}
        FROM (SELECT lease_id, uuid, row, step FROM gpus, generate_series(0, 11) AS step WHERE row <= {_MOST_GPUS}) g
            LEFT JOIN gpu_steps s ON s.lease_id = g.lease_id AND s.uuid = g.uuid AND s.step = g.step
        GROUP BY g.lease_id, g.row),
    gpu_matrix AS (
        SELECT r.lease_id, array_agg(v.steps ORDER BY r.row, v.n) AS gpu_values
        FROM gpu_series_rows r, LATERAL (VALUES {_GPU_ROWS}) AS v (n, steps) GROUP BY r.lease_id),
    gpu_hours AS (
        SELECT lease_id, array_agg(uuid ORDER BY row) AS uuids, array_agg(means ORDER BY row) AS gpu_values
        FROM gpus WHERE row <= {_MOST_GPUS} GROUP BY lease_id),
    fine AS (
        INSERT INTO gpu_series (lease_id, starts_at, tenant_id, {_NAMES}, uuids, gpu_values)
        SELECT h.lease_id, :since, h.tenant_id, {", ".join(f"s.{name}" for name in LEASE_SERIES)}, coalesce(u.uuids, '{{}}'),
            coalesce(m.gpu_values, '{{}}')
        FROM hours h JOIN series s USING (lease_id) LEFT JOIN gpu_hours u USING (lease_id) LEFT JOIN gpu_matrix m USING (lease_id)
        ORDER BY h.lease_id ON CONFLICT DO NOTHING)
    INSERT INTO gpu_rollup (lease_id, starts_at, tenant_id, samples, idle_samples, {_NAMES}, uuids, gpu_values)
    SELECT h.lease_id, :since, h.tenant_id, h.samples, h.idle_samples, {", ".join(f"h.{name}" for name in LEASE_SERIES)},
        coalesce(u.uuids, '{{}}'), coalesce(u.gpu_values, '{{}}')
    FROM hours h LEFT JOIN gpu_hours u USING (lease_id)
    ORDER BY h.lease_id ON CONFLICT DO NOTHING
    """
)


def reporting(since: datetime) -> Bound[TextClause]:
    """(lease_id, has_failed) of leases whose newest sample is not older than `since`. `has_failed`: an earlier hour has."""
    return Bound(_REPORTING, {"since": since})


def close(leases: list[str], since: datetime, until: datetime) -> Bound[TextClause]:
    """Stores series and means of some leases in the hour from `since`. Its row count is the number of leases with samples.

    Samples of an hour that is over never change, so a repeat stores nothing.
    """
    return Bound(_CLOSE, {"leases": leases, "since": since, "until": until})


def leave_out(lease_id: str, since: datetime, error: str) -> Bound[TextClause]:
    """The samples of a lease in the hour from `since` cannot be summed up."""
    return Bound(_LEAVE_OUT, {"lease_id": lease_id, "since": since, "error": error})


def move(until: datetime) -> Bound[TextClause]:
    """All hours until then are summed up."""
    parameters: dict[str, Any] = {"until": until}
    return Bound(_MOVE, parameters)
