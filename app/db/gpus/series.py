"""Reading series: of one lease over days, and the utilization of many leases over hours."""

from collections.abc import Sequence

from sqlalchemy import ARRAY, Integer, SmallInteger, Text, bindparam, cast, extract, func, select, text

from app.db.core.compiled import Compiled
from app.db.core.sql import Time
from app.db.core.tenant_scope import EVERY_TENANT, TENANT, asking
from app.db.schema.tables import gpu_sample, gpu_series, lease, usage_progress
from app.domain.gpus.samples import GPU_SERIES, LEASE_SERIES
from app.domain.gpus.series import MOST_GPUS, MOST_POINTS

_LEASE = bindparam("lease_id", type_=Text)
_LEASES = bindparam("lease_ids", type_=ARRAY(Text))
_SINCE, _UNTIL = (bindparam(name, type_=Time) for name in ("since", "until"))

PROGRESS = Compiled(
    select(lease.c.id, usage_progress.c.samples_rolled_until, func.now().label("now")).select_from(
        usage_progress.outerjoin(lease, (lease.c.id == func.any(_LEASES)) & asking(lease.c.tenant_id))
    )
)
"""Parameter: lease_ids. Those that the caller may see, or one row with a null id; how far samples are summed up; the database's clock."""

SERIES = Compiled(
    select(gpu_series.c.starts_at, *(gpu_series.c[name] for name in (*LEASE_SERIES, "uuids", "gpu_values")))
    .where(gpu_series.c.lease_id == _LEASE, gpu_series.c.starts_at >= _SINCE, gpu_series.c.starts_at < _UNTIL)
    .where(asking(gpu_series.c.tenant_id))
    .order_by(gpu_series.c.starts_at.desc())
    .limit(MOST_POINTS + 1)
)
"""Parameters: lease_id, since, until. The newest hour first."""

_OWNED = f"(tenant_id = CAST(:{TENANT} AS text) OR '{EVERY_TENANT}' = CAST(:{TENANT} AS text))"
_MEANS = ", ".join(f"CAST(avg({name}) AS smallint) AS {name}" for name in LEASE_SERIES)


def _cells(table: str, at: str, value: str) -> Compiled:
    """Means of each cell. `at`: the column of a row's time. `value`: of a GPU at `place`, with the number of its series."""
    gpu_means = ", ".join(f"CAST(avg({value.format(n)}) AS smallint) AS {name}" for n, name in enumerate(GPU_SERIES, 1))
    return Compiled(
        text(
            f"""
            WITH points AS MATERIALIZED (
                SELECT CAST(floor(extract(epoch FROM {at} - :since) / :cell) AS integer) AS cell, {", ".join(LEASE_SERIES)}, uuids,
                    gpu_values
                FROM {table} WHERE lease_id = :lease_id AND {at} >= :since AND {at} < :until AND {_OWNED}),
            whole AS (SELECT cell, {_MEANS} FROM points GROUP BY cell),
            gpus AS (
                SELECT uuid, cell, min(place) AS place, {gpu_means}
                FROM points, unnest(uuids) WITH ORDINALITY AS u (uuid, place) GROUP BY uuid, cell)
            (SELECT NULL AS uuid, {_arrays(LEASE_SERIES)} FROM whole HAVING count(*) > 0)
            UNION ALL
            (SELECT uuid, {_arrays(GPU_SERIES)} FROM gpus GROUP BY uuid ORDER BY min(cell), min(place), uuid LIMIT {MOST_GPUS})
            """
        ).bindparams(_SINCE, _UNTIL, _LEASE, bindparam("cell", type_=Integer))
    )


def _arrays(names: Sequence[str]) -> str:
    values = ", ".join(f"array_agg({name} ORDER BY cell)" for name in names)
    return f'array_agg(cell ORDER BY cell) AS cells, ARRAY[{values}] AS "values"'


SAMPLES = _cells("gpu_sample", "at", "gpu_values[{}][place]")
"""Parameters: lease_id, since, until, cell (seconds). Rows (uuid, cells, values), the lease's first: its uuid is null.

`values[series][n]`: the mean of each series in `cells[n]`, counted from `since`. So its size depends on the cells alone,
and not on the number of samples. At most MOST_GPUS GPUs, those that come first.
"""

HOURS = _cells("gpu_rollup", "starts_at", "gpu_values[place][{}]")
"""The same from the means of hours."""

UTILIZATION = Compiled(
    select(gpu_series.c.lease_id, gpu_series.c.starts_at, gpu_series.c.gpu_percent)
    .where(
        gpu_series.c.lease_id == func.any(_LEASES), gpu_series.c.starts_at >= _SINCE, gpu_series.c.starts_at < _UNTIL
    )
    .where(asking(gpu_series.c.tenant_id))
)
"""Parameters: lease_ids, since, until."""

_STEP = cast(func.floor(extract("epoch", gpu_sample.c.at - _SINCE) / 300), Integer).label("step")

RECENT_UTILIZATION = Compiled(
    select(gpu_sample.c.lease_id, _STEP, cast(func.avg(gpu_sample.c.gpu_percent), SmallInteger).label("gpu_percent"))
    .where(gpu_sample.c.lease_id == func.any(_LEASES), gpu_sample.c.at >= _SINCE, gpu_sample.c.at < _UNTIL)
    .where(asking(gpu_sample.c.tenant_id))
    .group_by(gpu_sample.c.lease_id, _STEP)
)
"""Parameters: lease_ids, since, until. Steps of five minutes are numbered from `since`."""
