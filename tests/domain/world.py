"""A cloud, a worker and an observer in miniature, on simulated time: what the steps of `decide` lead to.

The executor does to a lease what workers/lifecycle/steps do, in memory; what the cloud answers is drawn at random. The truth of
the cloud (`vms`, by attempt number) is hidden from the rules, which see only what is recorded.
"""

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from random import Random
from typing import Any

from app.domain.gpus.findings import Finding, HealthStatus, ProofStatus
from app.domain.gpus.health import HealthRecord
from app.domain.gpus.proofs import ProofRecord, rejected
from app.domain.gpus.protocol import AwaitProof, GiveUpProof, ReadConsole, RebootForGpus, RejectVm
from app.domain.lease_requests import LeaseRequest, OnGpuFailure, OnInterruption, ProofMode
from app.domain.leases import TRANSITIONS, AttemptState, Desired, Lease, LeaseState, VmState, final_state
from app.domain.lifecycle import (
    BeginRelease,
    CloseAttempt,
    Enter,
    Finish,
    Look,
    Place,
    RenewDeadline,
    Requeue,
    Rest,
    Send,
    Settle,
    Step,
    Terminate,
    Verify,
    deadline,
    decide,
    settled,
)
from app.domain.reasons import Origin, Reason, ReasonCode
from tests.domain.cases import FATAL, NEEDS_REBOOT
from tests.domain.samples import NOW, TIMING, ahead, attempt, lease

MOST_STEPS = 64
_RUNNING = (VmState.PENDING, VmState.RUNNING, VmState.STOPPED, VmState.ENDING)


@dataclass(slots=True)
class World:
    """One lease and its cloud. `calm`: the cloud answers everything, starts nothing new going wrong."""

    random: Random
    calm: bool = False
    now: datetime = NOW
    vms: dict[int, VmState] = field(default_factory=dict)
    lease: Lease = field(default_factory=lease)
    steps: list[str] = field(default_factory=list)

    @classmethod
    def new(cls, random: Random) -> "World":
        on_interruption = random.choice(list(OnInterruption))
        wait_until = ahead(random.choice([0, 600]))
        wish, policy = random.choice(list(ProofMode)), random.choice(list(OnGpuFailure))
        request = LeaseRequest(ttl_seconds=7200, proof=wish, on_gpu_failure=policy)
        start = lease(wait_until=wait_until, expires_at=ahead(7200), on_interruption=on_interruption, request=request)
        return cls(random=random, lease=start)

    def goes_well(self, chance: float = 0.5) -> bool:
        return self.calm or self.random.random() < chance

    # --- a worker ----------------------------------------------------------------------------------------

    def claim(self) -> datetime | None:
        """Moves the lease until it rests, as one claim does; until when."""
        for _ in range(MOST_STEPS):
            step = decide(self.lease, self.now, TIMING)
            self.steps.append(type(step).__name__)
            rest = step if isinstance(step, Rest) else self._execute(step)
            if rest is not None:
                return rest.until
        raise AssertionError(f"no rest within {MOST_STEPS} steps: {self.steps[-MOST_STEPS:]}")

    def _execute(self, step: Step) -> Rest | None:
        match step:
            case BeginRelease(reason):
                self._go(LeaseState.RELEASING, desired=Desired.END, reason=reason)
            case Enter(state):
                self._go(state, **{"running_at" if state is LeaseState.BOOTING else "ready_at": self.now})
            case Requeue():
                self._go(LeaseState.QUEUED, running_at=None, wait_until=self.now)
            case Finish():
                self._go(final_state(self.lease))
            case Settle():
                self._facts(state=AttemptState.SETTLING, empty_listings=0, last_empty_listing_at=None, retry_at=None)
            case RenewDeadline():
                self._renew()
            case CloseAttempt():
                self._facts(state=AttemptState.DEAD, clean=True)
            case _:
                return self._decide_on_gpus(step)
        return None

    def _decide_on_gpus(self, step: Step) -> Rest | None:
        match step:
            case AwaitProof():
                self._facts(proof_awaited_at=self.now)
            case GiveUpProof():
                self._prove(ProofStatus.NONE)
            case RejectVm(cause, extra):
                self._reject(cause, extra)
            case _:
                return self._call(step)
        return None

    def _call(self, step: Step) -> Rest | None:
        calls: dict[type[Any], Callable[[], Rest | None]] = {
            Place: self._place,
            Send: self._send,
            Look: self._look,
            Verify: self._verify,
            Terminate: self._terminate,
            ReadConsole: self._read_console,
            RebootForGpus: self._reboot,
        }
        return calls[type(step)]()

    def _renew(self) -> None:
        if self.goes_well():
            self.lease = replace(self.lease, deadline_applied=deadline(self.lease, TIMING))
        else:
            self._facts(retry_at=self._in(5))

    def _place(self) -> Rest | None:
        if not self.calm and self.goes_well(0.7) and self.lease.attempts_count < 8:
            n = self.lease.attempts_count + 1
            planned = attempt(AttemptState.PLANNED, n=n, has_agent=self.random.random() < 0.5)
            self.lease = replace(self.lease, attempt=planned, attempts_count=n, deadline_applied=None)
            if self.lease.state is LeaseState.QUEUED:
                self._go(LeaseState.PROVISIONING)
            return None
        if self.now >= self.lease.wait_until:
            reason = Reason(ReasonCode.CAPACITY_EXHAUSTED, "none left")
            self._go(LeaseState.RELEASING, desired=Desired.END, reason=reason)
            return None
        if self.lease.state is LeaseState.PROVISIONING:
            self._go(LeaseState.QUEUED)
        return Rest(min(self.lease.expires_at, self.lease.wait_until, self.now + timedelta(seconds=30)))

    def _send(self) -> None:
        before = self._attempt.unknown_since
        self._facts(state=AttemptState.SENT, last_sent_at=self.now, unknown_since=before or self.now, retry_at=None)
        outcome = "made" if self.calm else self.random.choice(["made", "lost", "nothing", "refused", "throttled"])
        if outcome in ("made", "lost"):
            self.vms.setdefault(self._attempt.n, VmState.PENDING)
        match outcome:
            case "made":
                self._known()
            case "refused" if before is None:
                self._facts(state=AttemptState.REFUSED, clean=True)
            case "refused":
                self._facts(state=AttemptState.SETTLING, empty_listings=0, last_empty_listing_at=None)
            case "throttled":
                self._facts(unknown_since=before, retry_at=self._in(1))
            case _:
                self._facts(retry_at=self._in(self.random.choice([1, 15])))

    def _look(self) -> Rest | None:
        if not self.goes_well():
            return self._failed()
        if self._attempt.n in self.vms:
            self._known()
            return None
        if settled(self._attempt, self.now, TIMING):
            self._facts(state=AttemptState.DEAD, clean=True)
            return None
        return Rest(self._in(30))

    def _verify(self) -> Rest | None:
        if not self.goes_well():
            return self._failed()
        before, truth = self._attempt.vm_state, self.vms[self._attempt.n]
        confirmed = before is VmState.STOPPED and truth is VmState.STOPPED
        reason = {**(self._attempt.vm_reason or {}), "confirmed": confirmed}
        self._facts(vm_state=truth, vm_reason=reason if truth is VmState.STOPPED else self._attempt.vm_reason)
        return None

    def _terminate(self) -> None:
        if not self.goes_well():
            self._facts(retry_at=self._in(5))
            return
        if self.vms[self._attempt.n] is not VmState.GONE:
            self.vms[self._attempt.n] = VmState.ENDING
        tries = self._attempt.terminate_tries + 1
        self._facts(terminate_sent_at=self.now, terminate_tries=tries, retry_at=None)

    def _read_console(self) -> None:
        self._facts(console_proof_tries=self._attempt.console_proof_tries + 1)
        if self.goes_well(0.3):
            self._prove(ProofStatus.PASSED)

    def _reboot(self) -> None:
        if not self.goes_well():
            self._facts(retry_at=self._in(5))
            return
        self._facts(gpu_rebooted_at=self.now, console_proof_tries=0, retry_at=None)
        if self.lease.state is LeaseState.BOOTING:
            self._prove(ProofStatus.PENDING)

    def _reject(self, cause: ReasonCode, extra: tuple[Finding, ...]) -> None:
        if cause is ReasonCode.GPU_CHECK_FAILED:
            record = rejected(self.lease.proof, extra, n=self._attempt.n, now=self.now)
            self.lease = replace(self.lease, proof=record)
        else:
            assert self.lease.gpu_health is not None
            self.lease = replace(self.lease, gpu_health=replace(self.lease.gpu_health, rejected=True))

    def _prove(self, status: ProofStatus) -> None:
        findings = (self.random.choice([FATAL, NEEDS_REBOOT]),) if status is ProofStatus.FAILED else ()
        record = ProofRecord(n=self._attempt.n, status=status, at=self.now, findings=findings)
        self.lease = replace(self.lease, proof=record)

    def _failed(self) -> Rest:
        self._facts(retry_at=self._in(5))
        return Rest(self._in(5))

    # --- the cloud and its observers -----------------------------------------------------------------------

    def happen(self) -> None:
        """What the cloud does by itself, and what the observers write down of it."""
        for n, state in self.vms.items():
            self.vms[n] = self._next_state(state)
        one = self.lease.attempt
        if one is None or self.lease.terminal:
            return
        if one.state is AttemptState.KNOWN and self.goes_well():
            self._watch()
        elif one.state in (AttemptState.SENT, AttemptState.SETTLING) and self.goes_well():
            self._list()
        if one.has_agent and self.vms.get(one.n) is VmState.RUNNING and self.goes_well():
            self._report()

    def _report(self) -> None:
        """What the agent sends, as the API stores it."""
        n, proof = self._attempt.n, self.lease.proof
        if self.lease.state in (LeaseState.PROVISIONING, LeaseState.BOOTING):
            if proof is None or proof.n != n or proof.status is ProofStatus.PENDING:
                self._prove(ProofStatus.PASSED if self.goes_well() else ProofStatus.FAILED)
        elif self.lease.state is LeaseState.ACTIVE and self.lease.rejected_for is None:
            status = HealthStatus.HEALTHY if self.goes_well(0.9) else HealthStatus.FAILING
            self.lease = replace(self.lease, gpu_health=HealthRecord(n=n, status=status, since=self.now))

    def _next_state(self, state: VmState) -> VmState:
        if self.goes_well() and state in (VmState.PENDING, VmState.ENDING):
            return VmState.RUNNING if state is VmState.PENDING else VmState.GONE
        if not self.calm and state is VmState.RUNNING and self.random.random() < 0.05:
            return self.random.choice([VmState.STOPPED, VmState.ENDING, VmState.GONE])
        return state

    def _watch(self) -> None:
        one, truth = self._attempt, self.vms[self._attempt.n]
        gone = one.vm_state is VmState.GONE
        taken = {"interrupted": True} if truth is VmState.GONE and self.random.random() < 0.5 else one.vm_reason
        hidden = not self.calm and not gone and self.random.random() < 0.1
        self._facts(
            vm_state=VmState.ABSENT if hidden else truth,
            vm_reason=taken,
            ready=one.ready or (truth is VmState.RUNNING and self.goes_well()),
            clean=one.clean or (gone and self.goes_well()),
        )

    def _list(self) -> None:
        one = self._attempt
        if one.n in self.vms:
            self._known()
        elif one.state is AttemptState.SETTLING and one.empty_listings < 2:
            self._facts(empty_listings=one.empty_listings + 1, last_empty_listing_at=self.now)

    def end(self) -> None:
        """The owner asks for the end."""
        if LeaseState.RELEASING in TRANSITIONS[self.lease.state]:
            reason = Reason(ReasonCode.RELEASED_BY_USER, "released", Origin.USER)
            self._go(LeaseState.RELEASING, desired=Desired.END, reason=reason)

    # --- writing -------------------------------------------------------------------------------------------

    @property
    def alive(self) -> list[int]:
        """Numbers of the attempts whose VM costs money, as the cloud knows it."""
        return [n for n, state in self.vms.items() if state in _RUNNING]

    @property
    def _attempt(self) -> Any:
        assert self.lease.attempt is not None
        return self.lease.attempt

    def _in(self, seconds: float) -> datetime:
        return self.now + timedelta(seconds=seconds)

    def _known(self) -> None:
        self._facts(
            state=AttemptState.KNOWN,
            instance_id="i-1",
            vm_state=self.vms[self._attempt.n],
            known_at=self._attempt.known_at or self.now,
            retry_at=None,
        )

    def _facts(self, **changes: Any) -> None:
        self.lease = replace(self.lease, attempt=replace(self._attempt, **changes))

    def _go(self, state: LeaseState, **changes: Any) -> None:
        assert state in TRANSITIONS[self.lease.state], f"{self.lease.state} -> {state}"
        self.lease = replace(self.lease, state=state, **changes)
