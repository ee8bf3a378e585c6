"""Enter a state: `booting` when the provider reports a running VM (billing starts), `active` when the VM has shown that it is ready.

Each step takes several leases, in one transaction. It returns those that have entered the state. The others were taken
over by another worker, ended or stopped by a hold meanwhile. What launches teach about an offering is written afterwards. Otherwise
the row of an offering stays locked until the commit, and all leases at the offering wait for each other. A worker that
dies in between loses one observation.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from decimal import Decimal
from statistics import fmean
from typing import Any, TypeVar

from app.db.events.events import NewEvent
from app.db.fleet import offering_stats
from app.db.leases import launches, spend_caps
from app.db.leases.transitions import NOW, locked
from app.domain.events import LeaseActive, LeaseBooting
from app.domain.leases import LeaseState
from app.domain.rates import Rate
from app.settings.providers import SSH_PORT
from workers.lifecycle.steps.context import OwnChange, StepContext, change_each, offering_key

K = TypeVar("K")


def enter_booting(leases: Sequence[StepContext]) -> list[StepContext]:
    """The provider bills from here on: so does gpulease, at the rate each attempt was planned with."""
    entered: list[StepContext] = []
    with leases[0].runtime.database.begin() as connection:
        connection.execute(*locked(ctx.lease.id for ctx in leases))
        for rate, equal in _grouped(leases, lambda ctx: ctx.attempt.rate).items():
            changes = [OwnChange(ctx, _booting(ctx), _connection_columns(ctx)) for ctx in equal]
            bindings = {"rate": rate.total, "cost": Decimal(0)}
            entered += change_each(connection, changes, to=LeaseState.BOOTING, bindings=bindings, values=_billed(rate))
        connection.execute(*launches.start_billing(ctx.attempt.id for ctx in entered))
    for key, equal in _grouped(entered, lambda ctx: offering_key(ctx.attempt)).items():
        sent_at = max((ctx.attempt.last_sent_at for ctx in equal if ctx.attempt.last_sent_at), default=None)
        leases[0].runtime.database.run(offering_stats.launched(key, len(equal), sent_at=sent_at))
    return entered


def _booting(ctx: StepContext) -> NewEvent:
    return NewEvent(LeaseBooting(n=ctx.attempt.n, instance_id=ctx.attempt.instance_id))


def _connection_columns(ctx: StepContext) -> dict[str, Any]:
    known = {"instance_id": ctx.attempt.instance_id, "queued_at_provider": None}
    return {"connection": _connection(ctx), "placement": {**(ctx.row.lease_placement or {}), **known}}


_RATE_BEGINS = spend_caps.rate_begins(launches.RATE_SINCE)


def _billed(rate: Rate) -> Mapping[str, Any]:
    return {
        "running_at": NOW,
        "billing_started_at": launches.BILLING_STARTED_AT,
        "billing_ended_at": None,
        "rate_per_hour": rate.total,
        "disk_rate_per_hour": rate.disk,
        "address_rate_per_hour": rate.address,
        **_RATE_BEGINS,
        "launched_at": launches.LAUNCHED_AT,
    }


_USABLE = {"ready_at": NOW, "reason": None, "reboot_requested_at": None}


def enter_active(leases: Sequence[StepContext]) -> list[StepContext]:
    """Usable: the connection is shown, and the offering's time to ready is learnt from it."""
    with leases[0].runtime.database.begin() as connection:
        connection.execute(*locked(ctx.lease.id for ctx in leases))
        changes = [OwnChange(ctx, _active(ctx), {"connection": _connection(ctx)}) for ctx in leases]
        entered = change_each(connection, changes, to=LeaseState.ACTIVE, values=_USABLE)
        connection.execute(*launches.ready(ctx.attempt.id for ctx in entered))
    launched = [ctx for ctx in entered if ctx.row.lease_launched_at is not None]
    for key, equal in _grouped(launched, lambda ctx: offering_key(ctx.attempt)).items():
        seconds = fmean((ctx.now - ctx.row.lease_launched_at).total_seconds() for ctx in equal)
        leases[0].runtime.database.run(offering_stats.became_ready(key, seconds))
    for ctx in entered:
        if ctx.lease.ready_at is None:
            waited = (ctx.now - ctx.lease.created_at).total_seconds()
            ctx.runtime.metrics.became_ready(ctx.attempt.provider, ctx.attempt.market, waited)
    return entered


def _active(ctx: StepContext) -> NewEvent:
    return NewEvent(LeaseActive(n=ctx.attempt.n, instance_id=ctx.attempt.instance_id))


def _grouped(leases: Iterable[StepContext], key: Callable[[StepContext], K]) -> dict[K, list[StepContext]]:
    groups: dict[K, list[StepContext]] = {}
    for ctx in leases:
        groups.setdefault(key(ctx), []).append(ctx)
    return groups


def _connection(ctx: StepContext) -> dict[str, Any]:
    user, port = ctx.provider.ssh_user, ctx.runtime.accounts.ssh_port(ctx.attempt.account)
    public, private = ctx.row.attempt_public_ip, ctx.row.attempt_private_ip
    address = public or private
    return {
        "public_ip": public,
        "private_ip": private,
        "ssh_user": user,
        "ssh_port": port,
        "ssh_command": _ssh_command(user, address, port) if address else None,
    }


def _ssh_command(user: str, address: str, port: int) -> str:
    return f"ssh {user}@{address}" if port == SSH_PORT else f"ssh -p {port} {user}@{address}"
