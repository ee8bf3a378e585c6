"""The health of active leases' GPUs, from what their agents report."""

from app.db.leases import proofs as statements
from app.domain.gpus.checks import ExpectedGpus
from app.domain.gpus.health import HealthRecord, next_health
from app.domain.gpus.reports import GpuReport
from app.domain.leases import LeaseState
from app.services.context import ServiceContext
from app.services.gpus.agents import Agent


class GpuHealthService:
    """Judges reports after the proof."""

    def __init__(self, context: ServiceContext) -> None:
        self._database = context.database

    async def judge(self, agent: Agent, report: GpuReport) -> bool:
        """Records the health that follows from the newest sample, in a transaction of its own. True: it has changed.

        Call it for a sample whose evidence (Xids, errors, GPUs or their flags) differs from that of the last one, and
        for the first sample. `report`: of the newest sample. It costs no query while the health stays. A lost race with
        another report is harmless: the next sample is judged again.
        """
        if agent.state is not LeaseState.ACTIVE or not agent.should_run:
            return False
        expected = ExpectedGpus.of(agent.offering, own_image=agent.own_image)
        before = None if agent.gpu_health is None else HealthRecord.from_json(agent.gpu_health)
        record = next_health(report, expected, before, n=agent.n, now=agent.now)
        if record is None:
            return False
        async with self._database.transaction(None) as connection:
            written = await connection.execute(*statements.set_health(agent.lease_id, record, agent.gpu_health))
            return written.first() is not None
