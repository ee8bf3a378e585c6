"""Waiting for the proof of a VM's GPUs. It arrives over the network at the API, or on the VM's serial console here."""

from collections.abc import Sequence
from datetime import timedelta

import structlog

from app.db.events.events import NewEvent
from app.db.leases import proofs
from app.db.leases.transitions import locked
from app.domain.events import LeaseProof
from app.domain.gpus.checks import ExpectedGpus
from app.domain.gpus.findings import ProofChannel, ProofStatus
from app.domain.gpus.proofs import ProofRecord, awaited, judged
from app.domain.gpus.reports import parse_proof, proofs_on_console
from app.domain.lifecycle import Rest
from workers.lifecycle.steps.batch_plan import token_of_agent
from workers.lifecycle.steps.context import StepContext, change
from workers.providers.errors import ProviderError, Throttled
from workers.runtime.accounts import error_json

log = structlog.get_logger(__name__)

_NO_TOKEN_PAUSE = timedelta(seconds=1)


def await_proof(leases: Sequence[StepContext]) -> list[StepContext]:
    """Records since when the ready VMs are waited for. Returns the leases that are still ours."""
    with leases[0].runtime.database.begin() as connection:
        connection.execute(*locked(ctx.lease.id for ctx in leases))
        begun = connection.execute(*proofs.begin_wait({ctx.attempt.id: ctx.claim_id for ctx in leases}))
        ours = {row.id for row in begun}
    return [ctx for ctx in leases if ctx.attempt.id in ours]


def give_up_proof(ctx: StepContext) -> None:
    """The lease does without a proof, unless one has arrived meanwhile."""
    record = awaited(ctx.attempt.n)
    none = ProofRecord(n=record.n, status=ProofStatus.NONE, at=ctx.now)
    event = NewEvent(LeaseProof(n=record.n, status=none.status, via=None, findings=()))
    with ctx.runtime.database.begin() as connection:
        change(
            connection,
            ctx,
            event,
            should_run=True,
            where=[proofs.SAME_PROOF],
            bindings={"before": ctx.row.lease_proof},
            values={"proof": none.as_json()},
        )


def read_console_proof(ctx: StepContext) -> Rest | None:
    """Reads the console once. Each read counts as a try, also one that fails, so their number is limited."""
    attempt, runtime = ctx.attempt, ctx.runtime
    if not runtime.rate_limiter.take(ctx.provider, ctx.bucket("read")):
        return Rest(ctx.now + _NO_TOKEN_PAUSE)
    try:
        output = ctx.provider.console_output(attempt.region, str(attempt.instance_id))
    except ProviderError as error:
        if isinstance(error, Throttled):
            runtime.rate_limiter.throttled(ctx.provider, ctx.bucket("read"), error)
        log.info("no console output", instance_id=attempt.instance_id, error=error_json(error))
        output = ""
    record = _first_proof(ctx, output)
    runtime.database.run(proofs.console_read(attempt.id, attempt.token, claim_id=ctx.claim_id))
    if record is not None:
        runtime.database.run(proofs.accept(ctx.lease.id, record, ctx.row.lease_proof))
    return None


def _first_proof(ctx: StepContext, output: str) -> ProofRecord | None:
    """The first genuine proof on the console that counts: the tenant's script may print later ones."""
    attempt, database = ctx.attempt, ctx.runtime.database
    token = token_of_agent(ctx)
    own_image = ctx.lease.request.image is not None
    for value in proofs_on_console(output, token):
        try:
            proof = parse_proof(value, now=ctx.now)
        except ValueError as error:
            log.info("a proof on the console is malformed", problem=str(error))
            continue
        uuids = [gpu.uuid for gpu in proof.gpus if gpu.uuid is not None]
        known = proofs.known_bad(attempt.provider, attempt.region, ctx.lease.tenant_id, uuids)
        bad = [row.uuid for row in database.all(known)]
        expected = ExpectedGpus.of(ctx.row.attempt_offering, own_image=own_image, known_bad=bad)
        record = judged(proof, expected, ctx.lease.proof, n=attempt.n, via=ProofChannel.CONSOLE, now=ctx.now)
        if record is not None:
            return record
    return None
