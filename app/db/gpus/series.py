"""Reading series: of one lease over days, and the utilization of many leases over hours."""

from sqlalchemy import ARRAY, Integer, SmallInteger, Text, bindparam, cast, extract, func, select

from app.db.core.column_types import Time
from app.db.core.compiled import Compiled
from app.db.core.tenant_scope import asking
from app.db.schema.tables import gpu_rollup, gpu_sample, gpu_series, lease, usage_progress
from app.domain.gpu_samples import LEASE_SERIES

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
)
"""Parameters: lease_id, since, until. The newest hour first."""

HOURS = Compiled(
    select(gpu_rollup.c.starts_at, *(gpu_rollup.c[name] for name in (*LEASE_SERIES, "uuids", "gpu_values")))
    .where(gpu_rollup.c.lease_id == _LEASE, gpu_rollup.c.starts_at >= _SINCE, gpu_rollup.c.starts_at < _UNTIL)
    .where(asking(gpu_rollup.c.tenant_id))
    .order_by(gpu_rollup.c.starts_at.desc())
)
"""Parameters: lease_id, since, until. The newest hour first."""

SAMPLES = Compiled(
    select(gpu_sample.c.at, *(gpu_sample.c[name] for name in (*LEASE_SERIES, "uuids", "gpu_values")))
    .where(gpu_sample.c.lease_id == _LEASE, gpu_sample.c.at >= _SINCE, gpu_sample.c.at < _UNTIL)
    .where(asking(gpu_sample.c.tenant_id))
    .order_by(gpu_sample.c.at)
)
"""Parameters: lease_id, since, until."""

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
