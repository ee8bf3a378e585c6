"""Benchmarks that agents report."""

from typing import Any

from app.db.fleet.gpu_benchmarks import store_benchmark
from app.domain.gpu_benchmarks import parse_benchmark
from app.domain.ids import AttemptId
from app.services.context import ServiceContext
from app.services.errors import FieldError, InvalidRequest


class GpuBenchmarkService:
    """Stores the first benchmark of an attempt whose lease requests one. Proofs and samples may carry it."""

    def __init__(self, context: ServiceContext) -> None:
        self._database = context.database

    async def accept(self, attempt_id: AttemptId, report: Any, request_id: str | None = None) -> None:
        """Stores the member `benchmark` of a report. Raises InvalidRequest for a malformed one."""
        try:
            benchmark = parse_benchmark(report)
        except ValueError as error:
            raise InvalidRequest(errors=[FieldError("#/body/benchmark", str(error))]) from None
        async with self._database.transaction(None) as connection:
            await store_benchmark(connection, attempt_id, benchmark, request_id=request_id)
