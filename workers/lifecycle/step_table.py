"""What each step of the protocol does: one row for each, read by the reconciler and by cohorts."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from app.domain.gpus.protocol import AwaitProof, GiveUpProof, ReadConsole, RebootForGpus, RejectVm
from app.domain.leases import LeaseState
from app.domain.lifecycle import (
    Attach,
    BeginRelease,
    CloseAttempt,
    Enter,
    Finish,
    Look,
    Place,
    Reboot,
    RenewDeadline,
    Requeue,
    Rest,
    Send,
    Settle,
    Step,
    Terminate,
    Verify,
)
from workers.lifecycle.batches.send import send_together
from workers.lifecycle.steps.attach import attach
from workers.lifecycle.steps.context import ClaimLostError, StepContext
from workers.lifecycle.steps.deadline import renew_deadline
from workers.lifecycle.steps.end import begin_release, close_attempt, finish, requeue
from workers.lifecycle.steps.enter import enter_active, enter_booting
from workers.lifecycle.steps.gpu_failure import reboot_for_gpus, reject_vm
from workers.lifecycle.steps.place import place
from workers.lifecycle.steps.proof import await_proof, give_up_proof, read_console_proof
from workers.lifecycle.steps.reboot import reboot
from workers.lifecycle.steps.resolve_unknown import look, verify
from workers.lifecycle.steps.settle import settle
from workers.lifecycle.steps.terminate import terminate

Write = Callable[[Sequence[StepContext]], list[StepContext]]
"""Writes one transaction for several leases. Returns those that are still ours, and whose guards held."""


@dataclass(frozen=True, slots=True)
class StepSpec:
    """`act` takes the step for one lease, with the fields of the step as arguments. It answers when the lease may rest.

    `calls_cloud`: the step calls the cloud of the lease's attempt.
    """

    act: Callable[..., Rest | None]
    calls_cloud: bool = False


@dataclass(frozen=True, slots=True)
class WriteSpec:
    """A step that only writes: leases that take the same one share a transaction. `by_state`: the write, by the state that it enters."""

    by_state: Mapping[LeaseState | None, Write]

    def write(self, step: Step, leases: Sequence[StepContext]) -> list[StepContext]:
        """Returns the leases that are still ours, and whose guards held."""
        return self.by_state[step.state if isinstance(step, Enter) else None](leases)


STEPS: dict[type[Step], StepSpec | WriteSpec] = {
    Place: StepSpec(place),
    Send: StepSpec(send_together, calls_cloud=True),
    Look: StepSpec(look, calls_cloud=True),
    Verify: StepSpec(verify, calls_cloud=True),
    Settle: StepSpec(settle),
    Attach: StepSpec(attach, calls_cloud=True),
    Enter: WriteSpec({LeaseState.BOOTING: enter_booting, LeaseState.ACTIVE: enter_active}),
    AwaitProof: WriteSpec({None: await_proof}),
    ReadConsole: StepSpec(read_console_proof, calls_cloud=True),
    GiveUpProof: StepSpec(give_up_proof),
    RejectVm: StepSpec(reject_vm),
    RebootForGpus: StepSpec(reboot_for_gpus, calls_cloud=True),
    Reboot: StepSpec(reboot, calls_cloud=True),
    RenewDeadline: StepSpec(renew_deadline, calls_cloud=True),
    BeginRelease: StepSpec(begin_release),
    Terminate: StepSpec(terminate, calls_cloud=True),
    CloseAttempt: StepSpec(close_attempt),
    Requeue: StepSpec(requeue),
    Finish: StepSpec(finish),
}


def take(step: Step, ctx: StepContext) -> Rest | None:
    """Takes the step for one lease. None: load the lease again and decide anew."""
    spec = STEPS[type(step)]
    if isinstance(spec, StepSpec):
        return spec.act(ctx, *(getattr(step, name) for name in step.__match_args__))
    if not spec.write(step, [ctx]):
        raise ClaimLostError
    return None


def write(step: Step, leases: Sequence[StepContext]) -> list[StepContext]:
    """Takes a step that only writes for several leases. Returns those that are still ours, and whose guards held."""
    spec = STEPS[type(step)]
    assert isinstance(spec, WriteSpec)
    return spec.write(step, leases)


def calls_cloud(step: Step) -> bool:
    """Whether the step calls the cloud of the lease's attempt."""
    spec = STEPS[type(step)]
    return isinstance(spec, StepSpec) and spec.calls_cloud
