"""Benchmarks that agents report."""

from typing import Any

from app.db.fleet.gpu_benchmarks import store_benchmark
from app.domain.gpus.benchmarks import Benchmark, is_possible, parse_benchmark
from app.domain.gpus.proofs import ProofRecord
from app.services.context import ServiceContext
from app.services.errors import FieldError, InvalidRequest
from app.services.gpus.agents import Agent


class GpuBenchmarkService:
    """Stores the first benchmark of an attempt whose lease requests one. Samples may carry it."""

    def __init__(self, context: ServiceContext) -> None:
        self._database = context.database

    async def accept(self, agent: Agent, report: Any) -> None:
        """Stores the member `benchmark` of a report. Raises InvalidRequest for a malformed one."""
        try:
            benchmark = parse_benchmark(report)
        except ValueError as error:
            raise InvalidRequest(errors=[FieldError("#/body/benchmark", str(error))]) from None
        async with self._database.transaction(None) as connection:
            await store_benchmark(connection, agent.attempt_id, benchmark, is_evidence=_is_evidence(agent, benchmark))


def _is_evidence(agent: Agent, benchmark: Benchmark) -> bool:
    """Whether offerings may count it: the proof of the same boot has just passed, and the figures are possible."""
    proof = None if agent.proof is None else ProofRecord.from_json(agent.proof)
    has_proved = proof is not None and proof.has_just_passed(agent.n, agent.now)
    return has_proved and is_possible(benchmark, agent.offering["gpu"]["model"])
