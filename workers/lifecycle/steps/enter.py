"""Going on: `booting` when the provider says running (billing starts), `active` when the VM has shown that it is ready."""

from decimal import Decimal
from typing import Any

from app.db.events.events import NewEvent
from app.db.fleet import offering_stats
from app.db.leases import launches, spend_caps
from app.db.leases.transitions import NOW
from app.domain.events import LeaseActive, LeaseBooting
from app.domain.leases import LeaseState
from app.settings.providers import SSH_PORT
from workers.lifecycle.steps.context import StepContext, change, offering_key


def enter_booting(ctx: StepContext) -> None:
    """The provider bills from here on: so does gpulease, at the rate the attempt was planned with."""
    attempt = ctx.attempt
    rate = attempt.rate
    event = NewEvent(LeaseBooting(n=attempt.n, instance_id=attempt.instance_id))
    values = {
        "running_at": NOW,
        "billing_started_at": launches.BILLING_STARTED_AT,
        "billing_ended_at": None,
        "rate_per_hour": rate.total,
        "disk_rate_per_hour": rate.disk,
        "address_rate_per_hour": rate.address,
        "rate_since": NOW,
        **spend_caps.RATE_BEGINS,
        "connection": _connection(ctx),
        "launched_at": launches.LAUNCHED_AT,
        "placement": {
            **(ctx.row.lease_placement or {}),
            "instance_id": attempt.instance_id,
            "queued_at_provider": None,
        },
    }
    with ctx.runtime.database.begin() as connection:
        given = {"rate": rate.total, "cost": Decimal(0)}
        change(connection, ctx, event, to=LeaseState.BOOTING, wanted=True, given=given, values=values)
        connection.execute(*launches.start_billing(attempt.id))
        connection.execute(*offering_stats.launched(offering_key(attempt)))


def enter_active(ctx: StepContext) -> None:
    """Usable: the connection is shown, and the offering's time to ready is learnt from it."""
    attempt = ctx.attempt
    event = NewEvent(LeaseActive(n=attempt.n, instance_id=attempt.instance_id))
    values = {"ready_at": NOW, "connection": _connection(ctx), "reason": None, "reboot_requested_at": None}
    with ctx.runtime.database.begin() as connection:
        change(connection, ctx, event, to=LeaseState.ACTIVE, wanted=True, values=values)
        if ctx.row.lease_launched_at is not None:
            seconds = (ctx.now - ctx.row.lease_launched_at).total_seconds()
            connection.execute(*offering_stats.became_ready(offering_key(attempt), seconds))
    if ctx.lease.ready_at is None:
        waited = (ctx.now - ctx.lease.created_at).total_seconds()
        ctx.runtime.metrics.became_ready(attempt.provider, attempt.market, waited)


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
