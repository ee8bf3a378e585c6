"""The samples of a run of idle samples, which stay with the lease as evidence."""

from sqlalchemy import Integer, Text, bindparam, select

from app.db.core.prepared import Bound
from app.db.core.sql import AnySelect, Time
from app.db.core.tenant_scope import owned
from app.db.schema.tables import gpu_sample, lease
from app.domain.idleness import MOST_EVIDENCE, Idleness
from app.domain.ids import LeaseId

_SAMPLES = (
    select(gpu_sample.c.at, gpu_sample.c.uuids, gpu_sample.c.gpu_values[1:1].label("percentages"))
    .where(gpu_sample.c.lease_id == bindparam("lease", type_=Text))
    .where(gpu_sample.c.at >= bindparam("since", type_=Time), gpu_sample.c.at <= bindparam("until", type_=Time))
    .order_by(gpu_sample.c.at.desc())
    .limit(bindparam("most", type_=Integer))
)


def samples(lease_id: LeaseId, run: Idleness) -> Bound[AnySelect]:
    """(at, uuids, percentages) of the run's samples, the newest first. `percentages`: utilization of each GPU."""
    return Bound(_SAMPLES, {"lease": lease_id, "since": run.since, "until": run.sampled_at, "most": MOST_EVIDENCE})


def of_lease(lease_id: str, *, within: str | None) -> AnySelect:
    """(idle_evidence) of a lease of the tenant `within` (None: of any)."""
    return select(lease.c.idle_evidence).where(lease.c.id == lease_id, owned(lease.c.tenant_id, within))
