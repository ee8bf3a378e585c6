"""GPU samples, in a partition for each day, and sums of them.

Revision: 0030
Follows: 0029
"""

from collections.abc import Iterator

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import postgresql

revision = "0030"
down_revision = "0029"
branch_labels = None
depends_on = None

API = "gpulease_api"
WORKER = "gpulease_worker"
TIME = postgresql.TIMESTAMP(timezone=True)
ID = sa.Text(collation="C")
SERIES = (
    "gpu_percent",
    "memory_percent",
    "power_w",
    "temperature_c",
    "sm_clock_mhz",
    "cpu_percent",
    "host_memory_percent",
    "disk_percent",
)
MAINTAIN = """
    CREATE FUNCTION maintain_gpu_partitions(keep_days integer) RETURNS integer
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, public SET timezone = 'UTC' SET lock_timeout = '2s' AS $$
    DECLARE parent text; day date; name text; count integer := 0;
    BEGIN
        FOREACH parent IN ARRAY ARRAY['gpu_sample', 'gpu_series'] LOOP
            FOR day IN SELECT generate_series(current_date - 1, current_date + 7, interval '1 day') LOOP
                name := format('%s_%s', parent, to_char(day, 'YYYYMMDD'));
                IF to_regclass(format('gpu_partitions.%I', name)) IS NULL THEN
                    EXECUTE format('CREATE TABLE gpu_partitions.%I (LIKE public.%I INCLUDING ALL)', name, parent);
                    EXECUTE format('ALTER TABLE public.%I ATTACH PARTITION gpu_partitions.%I FOR VALUES FROM (%L) TO (%L)',
                                   parent, name, day::timestamptz, (day + 1)::timestamptz);
                    EXECUTE format('GRANT SELECT ON gpu_partitions.%I TO gpulease_worker', name);
                    count := count + 1;
                END IF;
            END LOOP;
            FOR name IN SELECT relname FROM pg_class c JOIN pg_inherits i ON i.inhrelid = c.oid
                        WHERE i.inhparent = format('public.%I', parent)::regclass
                          AND right(relname, 8)::date < current_date - greatest(keep_days, 1) LOOP
                EXECUTE format('DROP TABLE gpu_partitions.%I', name);
                count := count + 1;
            END LOOP;
        END LOOP;
        RETURN count;
    END $$
"""
"""Creates the partitions of the next seven days and drops old ones. Owned by the owner of the tables: workers change no schema."""


def upgrade() -> None:
    of_day = "A partition per day, "
    _table(
        "gpu_sample",
        sa.Column("at", TIME, nullable=False, comment="by the VM's clock"),
        sa.Column("tenant_id", ID, nullable=False),
        sa.Column("idle", sa.Boolean(), nullable=False, comment="all GPUs of the VM"),
        *_values("[series][GPU]"),
        key="at",
        partitioned=True,
        comment=f"A row per lease and minute, as the agent sent it. {of_day}in the schema gpu_partitions",
    )
    _table(
        "gpu_series",
        sa.Column("starts_at", TIME, nullable=False, comment="a full hour, UTC"),
        sa.Column("tenant_id", ID, nullable=False),
        *_values("[series of the first GPU, of the next …][step]", of_steps=True),
        key="starts_at",
        partitioned=True,
        comment=f"Means of twelve steps of five minutes each. {of_day}as long as samples are kept",
    )
    _table(
        "gpu_rollup",
        sa.Column("starts_at", TIME, nullable=False, comment="a full hour, UTC"),
        sa.Column("tenant_id", ID, nullable=False),
        sa.Column("samples", sa.SmallInteger(), nullable=False),
        sa.Column("idle_samples", sa.SmallInteger(), nullable=False),
        *_values("[GPU][series]"),
        key="starts_at",
        comment="Means of an hour",
    )
    op.create_index("ix_gpu_rollup_starts_at", "gpu_rollup", ["starts_at"], postgresql_using="brin")
    op.execute(f"GRANT INSERT ON gpu_sample TO {API}")
    op.execute("CREATE SCHEMA gpu_partitions")
    op.execute(f"GRANT USAGE ON SCHEMA gpu_partitions TO {WORKER}")
    op.execute(MAINTAIN)
    op.execute("REVOKE ALL ON FUNCTION maintain_gpu_partitions FROM PUBLIC")
    op.execute(f"GRANT EXECUTE ON FUNCTION maintain_gpu_partitions TO {WORKER}")
    op.execute("SELECT maintain_gpu_partitions(7)")
    percents: sa.Column[list[int]] = sa.Column(
        "gpu_percents", postgresql.ARRAY(sa.SmallInteger()), nullable=True, comment="utilization of each GPU"
    )
    op.add_column("gpu_latest", percents)
    progress = "the end of the last hour whose GPU samples are summed up; NULL: none"
    op.add_column("usage_progress", sa.Column("samples_rolled_until", TIME, nullable=True, comment=progress))


def downgrade() -> None:
    op.drop_column("usage_progress", "samples_rolled_until")
    op.drop_column("gpu_latest", "gpu_percents")
    op.execute("DROP FUNCTION maintain_gpu_partitions")
    for name in ("gpu_rollup", "gpu_series", "gpu_sample"):
        op.drop_table(name)
    op.execute("DROP SCHEMA gpu_partitions")


def _values(of_gpus: str, *, of_steps: bool = False) -> Iterator[sa.Column[object]]:
    kind = postgresql.ARRAY(sa.SmallInteger()) if of_steps else sa.SmallInteger()
    for name in SERIES:
        yield sa.Column(name, kind, nullable=not of_steps)
    yield sa.Column("uuids", postgresql.ARRAY(sa.Text()), nullable=False, comment="its GPUs")
    yield sa.Column("gpu_values", postgresql.ARRAY(sa.SmallInteger()), nullable=False, comment=of_gpus)


def _table(name: str, *columns: "sa.Column[object]", key: str, comment: str, partitioned: bool = False) -> None:
    op.create_table(
        name,
        sa.Column("lease_id", ID, nullable=False),
        *columns,
        sa.PrimaryKeyConstraint("lease_id", key, name=op.f(f"pk_{name}")),
        comment=comment,
        postgresql_partition_by=f"RANGE ({key})" if partitioned else None,
    )
    tenant = "(SELECT current_setting('gpulease.tenant', true))"
    mine = f"(tenant_id = {tenant} OR {tenant} = '*')"
    op.execute(f"ALTER TABLE {name} ENABLE ROW LEVEL SECURITY")
    op.execute(f"ALTER TABLE {name} FORCE ROW LEVEL SECURITY")
    op.execute(f"CREATE POLICY tenant ON {name} TO {API} USING {mine} WITH CHECK {mine}")
    op.execute(f"CREATE POLICY worker ON {name} TO {WORKER} USING (true) WITH CHECK (true)")
    op.execute(f"GRANT SELECT ON {name} TO {API}")
    op.execute(f"GRANT ALL ON {name} TO {WORKER}")
