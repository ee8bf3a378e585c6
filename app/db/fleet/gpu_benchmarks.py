"""Benchmarks of GPUs: stored once for each attempt, and summed up by instance type for the catalogue."""

from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

from sqlalchemy import Double, Text, TextClause, bindparam, text
from sqlalchemy.ext.asyncio import AsyncConnection

from app.db.core.column_types import Json
from app.db.core.prepared import Bound
from app.db.core.statements import AnyInsert
from app.db.events.events import NewEvent
from app.db.leases.transitions import write
from app.domain.events import LeaseBenchmark
from app.domain.gpu_benchmarks import Benchmark, MeasuredPerformance
from app.domain.ids import LeaseId

# A report with more GPUs than the VM has is refused as a whole: one VM must not count for many.
_STORE = text(
    """
    INSERT INTO gpu_benchmark (attempt_id, uuid, lease_id, tenant_id, n, provider, account, region, zone, instance_type,
        gpu_model, agent, driver_version, libraries, counted, bf16_tflops, fp16_tflops, fp32_tflops, memory_gbps,
        host_to_device_gbps, device_to_host_gbps, allreduce_gbps, seconds)
    SELECT a.id, g.uuid, a.lease_id, a.tenant_id, a.n, a.provider, a.account, a.region, a.zone, a.instance_type,
        a.offering #>> '{gpu,model}', :agent, :driver_version, :libraries, l.request ->> 'image' IS NULL,
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
    bindparam("agent", type_=Text),
    bindparam("driver_version", type_=Text),
    bindparam("libraries", type_=Json),
    bindparam("gpus", type_=Json),
    bindparam("allreduce_gbps", type_=Double),
    bindparam("seconds", type_=Double),
)


async def store_benchmark(
    connection: AsyncConnection, attempt_id: str, benchmark: Benchmark, *, request_id: str | None = None
) -> bool:
    """Stores the first benchmark of a live attempt whose lease requests one, with the event `lease.benchmark`.

    Returns whether it was stored. A repeated report, and one that nobody requested, changes nothing. The transaction
    must not be confined to another tenant.
    """
    row = (await connection.execute(*insertion(attempt_id, benchmark))).first()
    if row is not None:
        await connection.execute(*told(row, benchmark, request_id))
    return row is not None


def insertion(attempt_id: str, benchmark: Benchmark) -> Bound[TextClause]:
    """Stores the benchmark. Returns a row (lease_id, n) for each GPU; no row: it was not stored. `told` comes next."""
    return Bound(
        _STORE,
        {
            "attempt_id": attempt_id,
            "agent": benchmark.agent,
            "driver_version": benchmark.driver_version,
            "libraries": dict(benchmark.libraries),
            "gpus": [asdict(gpu) for gpu in benchmark.gpus],
            "allreduce_gbps": benchmark.allreduce_gbps,
            "seconds": benchmark.seconds,
        },
    )


def told(row: Any, benchmark: Benchmark, request_id: str | None = None) -> Bound[AnyInsert]:
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
    return write(LeaseId(row.lease_id), NewEvent(event, request_id))


_NEWEST = text(
    """
    WITH newest AS (
        SELECT DISTINCT ON (provider, instance_type) provider, instance_type, agent, driver_version, libraries
        FROM gpu_benchmark WHERE counted AND bf16_tflops IS NOT NULL
        ORDER BY provider, instance_type, measured_at DESC, attempt_id DESC),
    gpu AS (
        SELECT DISTINCT ON (b.provider, b.instance_type, b.uuid)
            b.provider, b.instance_type, b.driver_version, b.bf16_tflops
        FROM gpu_benchmark b JOIN newest w ON b.provider = w.provider AND b.instance_type = w.instance_type
            AND b.agent = w.agent AND b.driver_version IS NOT DISTINCT FROM w.driver_version
            AND b.libraries = w.libraries
        WHERE b.counted AND b.bf16_tflops IS NOT NULL
        ORDER BY b.provider, b.instance_type, b.uuid, b.measured_at DESC)
    SELECT provider, instance_type, driver_version, count(*) AS n,
        percentile_cont(0.5) WITHIN GROUP (ORDER BY bf16_tflops) AS bf16_tflops_p50
    FROM gpu GROUP BY provider, instance_type, driver_version
    """
)


def newest() -> TextClause:
    """A row for each measured instance type of a provider, of the newest set of versions alone. A GPU counts once."""
    return _NEWEST


def performance_by_type(rows: Any) -> Mapping[tuple[str, str], MeasuredPerformance]:
    """The rows of `newest` by (provider, instance type)."""
    return {
        (row.provider, row.instance_type): MeasuredPerformance(
            bf16_tflops_p50=float(row.bf16_tflops_p50), n=row.n, driver_version=row.driver_version
        )
        for row in rows
    }
