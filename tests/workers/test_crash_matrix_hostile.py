"""The judge of the crash matrix finds what a hostile tenant's reports have changed for others, and nothing else."""

from sqlalchemy import func, insert, update

from app.db.schema.tables import bad_gpu, installation, lease
from tests.crash_matrix.hostile import MARK, traces
from tests.db.store import Store
from workers.runtime.database import WorkerDatabase

_TYPE = {"account": "sim", "region": "us-east-1", "zone": "us-east-1a", "instance_type": "g5.xlarge"}
_SEEN = {"provider": "aws", "finding": "matmul_failed", "first_seen_at": func.now(), "last_seen_at": func.now()}


def test_words_of_a_tenant_about_itself_are_no_trace_and_in_rows_of_others_or_of_nobody_they_are(
    database_url: str,
) -> None:
    database = WorkerDatabase(database_url, pool_size=1)
    store = Store(database)
    hostile, other = store.tenant_id, store.tenant()
    mark = f"{MARK}{hostile}"
    store.run(insert(bad_gpu).values(**_TYPE, **_SEEN, uuid=mark, tenant_id=hostile))
    own, foreign = store.lease(), store.lease(tenant_id=other)
    store.write(lease, own, labels={"agent": mark})
    assert traces(database_url, hostile) == []

    store.write(lease, foreign, labels={"agent": mark})
    store.run(update(installation).values(id=mark))
    found = sorted(traces(database_url, hostile))
    assert [line.split()[:2] for line in found] == [["forged:", "installation"], ["forged:", "lease"]]
    store.run(update(installation).values(id="honest"))
    store.write(lease, foreign, labels={"agent": f"{MARK}{other}"})
    assert traces(database_url, hostile) == []
    database.close()
