"""Proofs of GPUs that agents send before the tenant's script runs."""

from typing import Any

from app.db.leases import proofs as statements
from app.domain.gpus.checks import ExpectedGpus
from app.domain.gpus.findings import ProofChannel
from app.domain.gpus.proofs import ProofRecord, judged
from app.domain.gpus.reports import parse_proof
from app.domain.lease_requests import ProofMode
from app.domain.leases import LeaseState
from app.services.context import ServiceContext
from app.services.errors import FieldError, InvalidRequest, RateLimited
from app.services.gpus.agents import Agent
from app.services.gpus.health import GpuHealthService


class ProofService:
    """Accepts proofs over the network. Workers read those that arrive on consoles."""

    def __init__(self, context: ServiceContext, health: GpuHealthService) -> None:
        self._database = context.database
        self._hints = context.hints
        self._health = health

    async def accept(self, agent: Agent, report: Any, request_id: str) -> None:
        """Judges and stores the first proof of an attempt. Raises InvalidRequest for a malformed one.

        Raises RateLimited until the VM was seen running: a proof that arrives before may come from another VM, which knows the
        token since it was launched in the same call. The agent repeats it.
        Root in the VM may forge what comes after the tenant's script: a proof of an active lease counts for its health
        alone, and further ones before that change nothing.
        """
        try:
            proof = parse_proof(report, now=agent.now)
        except ValueError as error:
            raise InvalidRequest(errors=[FieldError("#/body", str(error))]) from None
        if agent.state is LeaseState.ACTIVE:
            await self._health.judge(agent, proof)
        if agent.proof_wish is ProofMode.OFF:
            return
        if agent.state is LeaseState.PROVISIONING:
            raise RateLimited(
                "gpulease has not seen the VM run yet; send the proof again", headers={"Retry-After": "1"}
            )
        if agent.state is not LeaseState.BOOTING:
            return
        uuids = [gpu.uuid for gpu in proof.gpus if gpu.uuid is not None]
        before = None if agent.proof is None else ProofRecord.from_json(agent.proof)
        async with self._database.transaction(None) as connection:
            bad = (
                (await connection.execute(*statements.known_bad(agent.provider, agent.region, agent.tenant_id, uuids)))
                .scalars()
                .all()
            )
            expected = ExpectedGpus.of(agent.offering, own_image=agent.own_image, known_bad=bad)
            record = judged(proof, expected, before, n=agent.n, via=ProofChannel.NETWORK, now=agent.now)
            if record is None:
                return
            written = statements.accept(agent.lease_id, record, agent.proof, request_id=request_id)
            accepted = (await connection.execute(*written)).first()
        if accepted is not None:
            self._hints.wake(agent.lease_id)
