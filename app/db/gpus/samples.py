"""Storing samples: the state of the leases whose agents report, and one statement that stores what several sent."""

from sqlalchemy import ARRAY, LargeBinary, Text, and_, bindparam, case, cast, extract, func, or_, select, text

from app.db.core.compiled import Compiled, Query
from app.db.core.sql import Time
from app.db.schema.tables import attempt, gpu_latest, lease
from app.domain.gpus.samples import LEASE_SERIES

_SERIES = ", ".join(LEASE_SERIES)
_SERIES_COLUMNS = ", ".join(f"{name} smallint" for name in LEASE_SERIES)
_OF_SAMPLE = ", ".join(f"s.{name}" for name in LEASE_SERIES)
_LATEST = (
    "tenant_id, attempt_id, sampled_at, gpu_percent, busiest_percent, memory_percent, gpus, idle_since, idle_samples, "
    "gpu_percents, sample, xids, metric_labels"
)
_SET = ", ".join(f"{name} = excluded.{name}" for name in _LATEST.split(", "))
_MOST_REFUSED = 2**31 - 1
_PROVEN_AT = cast(lease.c.proof["at"].astext, Time)
_LABELLED_AT = cast(gpu_latest.c.metric_labels["uuids_since"].astext, Time)
_IS_NEWER = and_(
    lease.c.proof["n"].as_integer() == attempt.c.n,
    or_(gpu_latest.c.attempt_id.is_distinct_from(attempt.c.id), _LABELLED_AT.is_(None), _PROVEN_AT > _LABELLED_AT),
)
"""The attempt has a proof that its labels do not know yet."""

REPORTERS = Query(
    select(
        attempt.c.agent_hash,
        attempt.c.id.label("attempt_id"),
        attempt.c.lease_id,
        attempt.c.tenant_id,
        lease.c.ready_at,
        lease.c.name,
        lease.c.gpu_count,
        case((_IS_NEWER, cast(lease.c.proof["gpus"], Text))).label("proven"),
        case((_IS_NEWER, lease.c.proof["at"].astext)).label("proven_at"),
        func.now().label("now"),
        gpu_latest.c.attempt_id.label("sampled_attempt_id"),
        *(gpu_latest.c[name] for name in ("sampled_at", "received_at", "idle_since", "idle_samples")),
        *(cast(gpu_latest.c[name], Text).label(name) for name in ("xids", "sample", "metric_labels")),
        and_(lease.c.state == "active", lease.c.gpu_health["n"].as_integer().is_distinct_from(attempt.c.n)).label(
            "is_unjudged"
        ),
        extract("epoch", func.now() - gpu_latest.c.received_at).label("received_ago"),
    )
    .select_from(
        attempt.join(lease, and_(lease.c.id == attempt.c.lease_id, lease.c.attempts_count == attempt.c.n)).outerjoin(
            gpu_latest, gpu_latest.c.lease_id == attempt.c.lease_id
        )
    )
    .where(
        attempt.c.agent_hash == func.any(bindparam("hashes", type_=ARRAY(LargeBinary))), attempt.c.ended_at.is_(None)
    )
)
"""Parameter: hashes. The leases' newest attempts that these tokens belong to and that have not ended, and their newest samples.

`proven`, `xids`, `sample` and `metric_labels` are JSON text. `proven`: the GPUs of a proof that is newer than the labels,
accepted at `proven_at` (RFC 3339). `now`: the database's clock.
"""

STORE = Compiled(
    text(
        f"""
        WITH items AS MATERIALIZED (
            SELECT * FROM json_to_recordset(CAST(:items AS json)) AS i (lease_id text, previous timestamptz, samples json,
                tenant_id text, attempt_id text, sampled_at timestamptz, gpu_percent smallint, busiest_percent smallint,
                memory_percent smallint, gpus integer, idle_since timestamptz, idle_samples integer, gpu_percents smallint[],
                sample jsonb, xids jsonb, metric_labels jsonb, refused integer)),
        latest AS (
            INSERT INTO gpu_latest AS known (lease_id, received_at, refused, {_LATEST})
            SELECT lease_id, now(), refused, {_LATEST} FROM items ORDER BY lease_id
            ON CONFLICT (lease_id) DO UPDATE SET received_at = now(), {_SET},
                refused = least(CAST(known.refused AS bigint) + excluded.refused, {_MOST_REFUSED})
            WHERE known.received_at = (SELECT previous FROM items i WHERE i.lease_id = known.lease_id)
            RETURNING lease_id),
        stored AS (
            INSERT INTO gpu_sample (lease_id, tenant_id, at, idle, {_SERIES}, uuids, gpu_values)
            SELECT i.lease_id, i.tenant_id, s.at, s.idle, {_OF_SAMPLE}, s.uuids, s.gpu_values
            FROM items i JOIN latest USING (lease_id), json_to_recordset(i.samples) AS s (
                at timestamptz, idle boolean, {_SERIES_COLUMNS}, uuids text[], gpu_values smallint[])
            ON CONFLICT DO NOTHING)
        SELECT lease_id FROM latest
        """
    ).bindparams(bindparam("items", type_=Text))
)
"""Parameter: items, a JSON array; each has the lease's new row of gpu_latest and its samples. `refused` is added.

Stores those of leases whose newest sample was received at `previous` (null: none was), and returns their ids. Leases
are locked in the order of their ids, so that two processes never wait for each other.
"""

COUNT_REFUSED = Compiled(
    text(
        f"""
        WITH counts AS MATERIALIZED (
            SELECT latest.lease_id, c.refused
            FROM unnest(CAST(:hashes AS bytea[]), CAST(:refused AS integer[])) AS c (hash, refused)
                JOIN attempt a ON a.agent_hash = c.hash AND a.ended_at IS NULL
                JOIN gpu_latest latest ON latest.attempt_id = a.id
            ORDER BY latest.lease_id FOR NO KEY UPDATE OF latest)
        UPDATE gpu_latest latest
        SET refused = least(CAST(latest.refused AS bigint) + counts.refused, {_MOST_REFUSED})
        FROM counts WHERE counts.lease_id = latest.lease_id
        """
    )
)
"""Parameters: hashes, and as many counts `refused`. A lease without a stored sample counts none.

Leases are locked in the order of their ids, as by `STORE`.
"""
