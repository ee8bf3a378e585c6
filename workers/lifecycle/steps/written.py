"""Steps that only write. Leases that take the same one share its transaction."""

from collections.abc import Callable, Mapping, Sequence

from app.domain.gpu_protocol import AwaitProof
from app.domain.leases import LeaseState
from app.domain.lifecycle import Enter, Step
from workers.lifecycle.steps.context import StepContext
from workers.lifecycle.steps.enter import enter_active, enter_booting
from workers.lifecycle.steps.proof import await_proof

WRITTEN: Mapping[Step, Callable[[Sequence[StepContext]], list[StepContext]]] = {
    Enter(LeaseState.BOOTING): enter_booting,
    Enter(LeaseState.ACTIVE): enter_active,
    AwaitProof(): await_proof,
}
"""Each returns the leases that are still ours, and whose guards held."""
