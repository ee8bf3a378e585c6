"""The context of a step, and the writes that steps share."""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal
from typing import Any
from uuid import UUID

import structlog
from sqlalchemy import ColumnElement, Connection, Row

from app.db.events.events import NewEvent
from app.db.fleet import jobs
from app.db.leases import claims, launches
from app.db.leases.loaded_leases import lease_from_row
from app.db.leases.transitions import LeaseChange, locked, write, write_each
from app.db.operations.brakes import NOT_HELD
from app.db.tenancy import quotas
from app.domain.event_parts import EventError, EventOffering
from app.domain.events import AttemptDead, AttemptRefused
from app.domain.ids import LeaseId, TenantId
from app.domain.leases import Attempt, AttemptState, Lease, LeaseState
from app.domain.lifecycle import deadline
from app.domain.money import format_money
from app.domain.offerings import Market, OfferingKey
from app.domain.provider_messages import public_error
from app.domain.tags import OwnerTags
from app.observability.traces import Span
from workers.providers.ports import Provider
from workers.runtime.runtime import Runtime

log = structlog.get_logger(__name__)


class ClaimLostError(Exception):
    """Another worker owns the lease now: stop without any decision. Raised inside a transaction to roll it back."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StepContext:
    """One claimed lease as loaded at `now` (the database's clock). `row` has the columns that only some steps need."""

    runtime: Runtime
    lease: Lease
    claim_id: UUID
    now: datetime
    row: Any

    @property
    def attempt(self) -> Attempt:
        """The newest attempt, for steps that require one. Raises ValueError without an attempt."""
        if self.lease.attempt is None:
            msg = f"lease {self.lease.id} has no attempt"
            raise ValueError(msg)
        return self.lease.attempt

    @property
    def provider(self) -> Provider:
        """The adapter of the attempt's account."""
        return self.runtime.accounts.provider(self.attempt.account)

    @property
    def owner(self) -> OwnerTags:
        """The tags that the attempt's VM carries."""
        return OwnerTags(
            installation=self.runtime.installation.id,
            lease_id=self.lease.id,
            n=self.attempt.n,
            tenant_id=self.lease.tenant_id,
            params_hash=self.row.params_hash,
            deadline_at=deadline(self.lease, self.runtime.timing),
        )

    def bucket(self, operation: str) -> str:
        """The rate bucket of the attempt's account and region."""
        return self.runtime.rate_limiter.bucket(self.attempt.account, self.attempt.region, operation)

    @contextmanager
    def writing_attempts(self) -> Iterator[Connection]:
        """One transaction that writes the lease's attempts before the lease. The transaction locks the lease first."""
        with self.runtime.database.begin() as connection:
            connection.execute(*locked([self.lease.id]))
            yield connection

    def require_claim(self, connection: Connection) -> None:
        """Raises ClaimLostError, which rolls back the transaction, when this worker no longer owns the claim."""
        must_hold(connection.execute(*claims.holds(self.lease.id, self.claim_id)))

    def span(self, name: str) -> AbstractContextManager[Span]:
        """The span of a step, in the trace of the request that last changed the lease."""
        return self.runtime.traces.root(
            name,
            self.row.lease_request_id,
            gpulease__lease_id=self.lease.id,
            gpulease__tenant_id=self.lease.tenant_id,
            gpulease__attempt_id=self.row.attempt_id,
        )

    def hurry_watch(self) -> None:
        """Brings the next watch pass of the attempt's region forward to within an interval: the VM is changing.

        Losing this write delays the pass by an idle watch's pause.
        """
        place = (self.attempt.account, self.attempt.region)
        self.runtime.database.run(jobs.hurry("watch", [place], within=self.runtime.settings.watch_interval))


def context_from_row(runtime: Runtime, row: Any, claim_id: UUID) -> StepContext:
    """The context of a row of `claims.load`."""
    return StepContext(runtime=runtime, lease=lease_from_row(row), claim_id=claim_id, now=row.now, row=row)


def offering_key(attempt: Attempt | Row[Any]) -> OfferingKey:
    """The key of the offering at which an attempt was tried. A row has its columns."""
    return OfferingKey(
        account=attempt.account,
        region=attempt.region,
        zone=attempt.zone,
        instance_type=attempt.instance_type,
        market=Market(attempt.market),
        reservation=attempt.reservation,
    )


def event_offering(attempt: Attempt) -> EventOffering:
    """The offering at which an attempt was tried, for events."""
    return EventOffering(
        provider=attempt.provider,
        account=attempt.account,
        region=attempt.region,
        zone=attempt.zone,
        instance_type=attempt.instance_type,
        market=str(attempt.market),
        reservation=attempt.reservation,
        price_per_hour=format_money(attempt.rate.total),
    )


def attempt_ended(attempt: Attempt, state: AttemptState, error: Mapping[str, Any] | None) -> NewEvent:
    """The event of an attempt that ends in `state`. `error`: as stored."""
    data = AttemptDead if state is AttemptState.DEAD else AttemptRefused
    public = None if error is None else EventError.of(public_error(error))
    offering = event_offering(attempt)
    return NewEvent(data(n=attempt.n, instance_id=attempt.instance_id, offering=offering, error=public))


def must_hold(result: Any) -> Any:
    """The first row of a guarded write. Raises ClaimLostError when a guard prevented the write."""
    row = result.first()
    if row is None:
        raise ClaimLostError
    return row


def change(  # noqa: PLR0913 - those of `transitions.write`
    connection: Connection,
    ctx: StepContext,
    event: NewEvent,
    *,
    to: LeaseState | None = None,
    should_run: bool = False,
    where: Iterable[ColumnElement[bool]] = (),
    bindings: Mapping[str, Any] | None = None,
    values: Mapping[str, Any] | None = None,
) -> None:
    """Writes a decision about the lease and its event in one statement, while the claim is ours and no hold is set.

    `should_run` also requires that nobody has requested the lease's end. `bindings`: parameters of guards and values.
    Raises ClaimLostError, which rolls back the transaction, when a guard prevents the write.
    """
    guards = [*where, NOT_HELD, *([launches.WANTED] if should_run else [])]
    changed = write(ctx.lease.id, event, to=to, claim_id=ctx.claim_id, where=guards, bindings=bindings, values=values)
    must_hold(connection.execute(*changed))


@dataclass(frozen=True, slots=True)
class OwnChange:
    """What a decision about several leases writes of one of them."""

    ctx: StepContext
    event: NewEvent
    values: Mapping[str, Any]


def change_each(
    connection: Connection,
    changes: Sequence[OwnChange],
    *,
    to: LeaseState | None,
    where: Iterable[ColumnElement[bool]] = (),
    bindings: Mapping[str, Any] | None = None,
    values: Mapping[str, Any] | None = None,
) -> list[StepContext]:
    """`change` for several wanted leases, which the caller has locked. Returns those whose guards held.

    Guards and `values`, and their parameters `bindings`, are the same for all.
    """
    rows = [LeaseChange(own.ctx.lease.id, own.ctx.claim_id, own.event, own.values) for own in changes]
    statement = write_each(rows, to=to, where=[*where, NOT_HELD, launches.WANTED], bindings=bindings, values=values)
    written = {row.lease_id for row in connection.execute(*statement)}
    return [own.ctx for own in changes if own.ctx.lease.id in written]


@dataclass(frozen=True, slots=True)
class QuotaResult:
    """Whether the increases fitted. `over_budget`: a budget left no room for them."""

    fits: bool
    over_budget: bool


def reserve_quota(
    connection: Connection,
    tenant_id: TenantId,
    lease_ids: Collection[LeaseId],
    amounts: Mapping[str, Decimal],
    *,
    rate: Decimal,
) -> QuotaResult:
    """Changes the reserved quota of each lease to `amounts`, and what it holds of budgets to that of `rate` (USD an hour).

    Increases that do not fit together are not reserved. The decreases are released in any case.
    """
    held = connection.execute(*quotas.reserve(tenant_id, lease_ids, amounts, rate)).one()
    if held.uncounted:
        connection.execute(*quotas.ensure_rows(tenant_id, amounts))
        held = connection.execute(*quotas.reserve(tenant_id, lease_ids, amounts, rate)).one()
    return QuotaResult(fits=held.fits, over_budget=held.over_budget)


def reserve_minimum(connection: Connection, ctx: StepContext) -> None:
    """Resets the reserved quota of a refused or ended attempt to the minimum that admission reserved.

    A part of the minimum may no longer be free: the price fell after admission, and other leases reserved the spend.
    The lease then has less than its minimum reserved. The quota is not exceeded: the next plan reserves its offering's
    full amounts or nothing.
    """
    minimum = {name: Decimal(amount) for name, amount in ctx.row.lease_minimum_claim.items()}
    rate = next(
        (
            known_rate
            for known_rate in (ctx.row.lease_minimum_rate, ctx.row.lease_estimated_price_per_hour)
            if known_rate
        ),
        Decimal(0),
    )
    if not reserve_quota(connection, ctx.lease.tenant_id, [ctx.lease.id], minimum, rate=rate).fits:
        log.info("the lease holds less quota than admission reserved")
