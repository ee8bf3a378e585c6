"""Benchmarks of GPUs: stored once for each attempt, and summed up by instance type for the catalogue."""

from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

from sqlalchemy import Boolean, Double, Text, TextClause, bindparam, text
from sqlalchemy.ext.asyncio import AsyncConnection

from app.db.core.prepared import Bound
from app.db.core.sql import AnyInsert, Json
from app.db.events.events import NewEvent
from app.db.leases.transitions import write
from app.domain.events import LeaseBenchmark
from app.domain.gpus.benchmarks import REPORTS_NEEDED, Benchmark, MeasuredPerformance
from app.domain.gpus.checks import TENANTS_NEEDED
from app.domain.ids import LeaseId

# A report with more GPUs than the VM has is refused as a whole: one VM must not count for many.
_STORE = text(
    """
    INSERT INTO gpu_benchmark (attempt_id, uuid, lease_id, tenant_id, n, provider, account, region, zone, instance_type,
        gpu_model, agent, driver_version, libraries, counted, bf16_tflops, fp16_tflops, fp32_tflops, memory_gbps,
        host_to_device_gbps, device_to_host_gbps, allreduce_gbps, seconds)
    SELECT a.id, g.uuid, a.lease_id, a.tenant_id, a.n, a.provider, a.account, a.region, a.zone, a.instance_type,
        a.offering #>> '{gpu,model}', :agent, :driver_version, :libraries,
        :is_evidence AND l.request ->> 'image' IS NULL,
        g.bf16_tflops, g.fp16_tflops, g.fp32_tflops, g.memory_gbps,
        g.host_to_device_gbps, g.device_to_host_gbps, :allreduce_gbps, :seconds
    FROM attempt a JOIN lease l ON l.id = a.lease_id
    CROSS JOIN jsonb_to_recordset(:gpus) AS g(uuid text, bf16_tflops double precision, fp16_tflops double precision,
        fp32_tflops double precision, memory_gbps double precision, host_to_device_gbps double precision,
        device_to_host_gbps double precision)
    WHERE a.id = :attempt_id AND a.ended_at IS NULL AND l.request ->> 'benchmark' <> 'off'
        AND jsonb_array_length(:gpus) <= (a.offering #>> '{gpu,count}')::integer
        AND NOT EXISTS (SELECT FROM gpu_benchmark b WHERE b.attempt_id = a.id)
    ON CONFLICT DO NOTHING
    RETURNING lease_id, n
    """
).bindparams(
    bindparam("attempt_id", type_=Text),
    bindparam("is_evidence", type_=Boolean),
    bindparam("agent", type_=Text),
    bindparam("driver_version", type_=Text),
    bindparam("libraries", type_=Json),
    bindparam("gpus", type_=Json),
    bindparam("allreduce_gbps", type_=Double),
    bindparam("seconds", type_=Double),
)


async def store_benchmark(
    connection: AsyncConnection, attempt_id: str, benchmark: Benchmark, *, is_evidence: bool
) -> bool:
    """Stores the first benchmark of a live attempt whose lease requests one, with the event `lease.benchmark`.

    `is_evidence`: offerings may count it. It was taken before the tenant's script, and a GPU of the model can have done it.

    Returns whether it was stored. A repeated report, and one that nobody requested, changes nothing. The transaction
    must not be confined to another tenant.
    """
    row = (await connection.execute(*insertion(attempt_id, benchmark, is_evidence=is_evidence))).first()
    if row is not None:
        await connection.execute(*append_event(row, benchmark))
    return row is not None


def insertion(attempt_id: str, benchmark: Benchmark, *, is_evidence: bool) -> Bound[TextClause]:
    """Stores the benchmark. Returns a row (lease_id, n) for each GPU; no row: it was not stored. `told` comes next."""
    return Bound(
        _STORE,
        {
            "attempt_id": attempt_id,
            "is_evidence": is_evidence,
            "agent": benchmark.agent,
            "driver_version": benchmark.driver_version,
            "libraries": dict(benchmark.libraries),
            "gpus": [asdict(gpu) for gpu in benchmark.gpus],
            "allreduce_gbps": benchmark.allreduce_gbps,
            "seconds": benchmark.seconds,
        },
    )


def append_event(row: Any, benchmark: Benchmark) -> Bound[AnyInsert]:
    """Records the event. `row`: of `insertion`, in the same transaction."""
    event = LeaseBenchmark(
        n=row.n,
        gpus=len(benchmark.gpus),
        bf16_tflops=benchmark.slowest("bf16_tflops"),
        fp16_tflops=benchmark.slowest("fp16_tflops"),
        fp32_tflops=benchmark.slowest("fp32_tflops"),
        memory_gbps=benchmark.slowest("memory_gbps"),
        allreduce_gbps=benchmark.allreduce_gbps,
    )
    return write(LeaseId(row.lease_id), NewEvent(event))


_COUNTED = text(
    f"""
    WITH vote AS (
        SELECT DISTINCT ON (provider, instance_type, tenant_id)
            provider, instance_type, tenant_id, agent, driver_version, libraries
        FROM gpu_benchmark WHERE counted AND bf16_tflops IS NOT NULL
        ORDER BY provider, instance_type, tenant_id, measured_at DESC, attempt_id DESC),
    gpu AS (
        SELECT DISTINCT ON (b.provider, b.instance_type, b.tenant_id, b.uuid)
            b.provider, b.instance_type, b.tenant_id, b.agent, b.driver_version, b.libraries, b.attempt_id, b.measured_at,
            b.bf16_tflops
        FROM gpu_benchmark b JOIN vote v ON b.provider = v.provider AND b.instance_type = v.instance_type
            AND b.tenant_id = v.tenant_id AND b.agent = v.agent
            AND b.driver_version IS NOT DISTINCT FROM v.driver_version AND b.libraries = v.libraries
        WHERE b.counted AND b.bf16_tflops IS NOT NULL
        ORDER BY b.provider, b.instance_type, b.tenant_id, b.uuid, b.measured_at DESC),
    tenant AS (
        SELECT provider, instance_type, tenant_id, agent, driver_version, libraries, count(*) AS gpus,
            count(DISTINCT attempt_id) AS reports, min(measured_at) AS first_at, max(measured_at) AS last_at,
            percentile_cont(0.5) WITHIN GROUP (ORDER BY bf16_tflops) AS bf16_tflops
        FROM gpu GROUP BY provider, instance_type, tenant_id, agent, driver_version, libraries),
    versions AS (
        SELECT provider, instance_type, driver_version, sum(gpus)::integer AS n,
            percentile_disc(0.5) WITHIN GROUP (ORDER BY bf16_tflops) AS bf16_tflops_p50,
            count(*) >= {TENANTS_NEEDED} AND sum(reports) >= {REPORTS_NEEDED} AS seconded,
            min(first_at) AS first_at, max(last_at) AS last_at
        FROM tenant GROUP BY provider, instance_type, agent, driver_version, libraries)
    SELECT DISTINCT ON (provider, instance_type) provider, instance_type, driver_version, n, bf16_tflops_p50
    FROM versions
    ORDER BY provider, instance_type, seconded DESC, CASE WHEN seconded THEN last_at END DESC NULLS LAST, first_at
    """
)


def counted() -> TextClause:
    """A row for each measured instance type of a provider, of one set of versions.

    A tenant votes with its newest set of versions, and has one vote whatever it reports. The newest set for which two
    tenants vote with three reports counts; without one, the set that was measured first. A GPU counts once for a
    tenant. Of two tenants, the lower median counts.
    """
    return _COUNTED


def performance_by_type(rows: Any) -> Mapping[tuple[str, str], MeasuredPerformance]:
    """The rows of `counted` by (provider, instance type)."""
    return {
        (row.provider, row.instance_type): MeasuredPerformance(
            bf16_tflops_p50=float(row.bf16_tflops_p50), n=row.n, driver_version=row.driver_version
        )
        for row in rows
    }
