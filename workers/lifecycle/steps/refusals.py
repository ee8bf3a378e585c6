"""What a refusal of a create call sets aside for other launches: an offering, a named image, a region or an account."""

from sqlalchemy import Connection, Update

from app.db.core.prepared import Bound
from app.db.fleet import accounts, offering_stats
from app.domain.brakes import BrakeName
from app.domain.cool_off import after_error
from workers.lifecycle.steps.context import StepContext, offering_key
from workers.providers.errors import (
    AccountBlocked,
    CredentialsRejected,
    NetworkFull,
    ProviderError,
    Refused,
    RegionBlocked,
)
from workers.runtime.accounts import error_json
from workers.runtime.brakes import log_brake


def set_refused_aside(connection: Connection, ctx: StepContext, error: ProviderError) -> None:
    """Cools off the offering. If the refusal may concern the image that the tenant named, sets that image aside instead.

    AccountBlocked sets the account or its region aside for all launches. No offering cools off after
    CredentialsRejected, which sets the account aside, and after NetworkFull.
    """
    image, attempt = ctx.lease.request.image, ctx.attempt
    if isinstance(error, AccountBlocked):
        region = attempt.region if isinstance(error, RegionBlocked) else None
        log_brake(BrakeName.ACCOUNT_BLOCKED, account=attempt.account, region=region, code=error.code)
        connection.execute(*accounts.block(attempt.account, region, error_json(error)))
    elif image is not None and isinstance(error, Refused) and error.may_concern_image:
        ctx.runtime.accounts.refuse_image(attempt.account, attempt.region, image, error)
    elif not isinstance(error, CredentialsRejected | NetworkFull):
        connection.execute(*cool_off(ctx, error))


def cool_off(ctx: StepContext, error: ProviderError) -> Bound[Update]:
    """Puts the offering into cool-off for as long as this kind of refusal usually lasts."""
    pause = after_error(error.kind, ctx.runtime.cool_offs)
    return offering_stats.cool_off(offering_key(ctx.attempt), pause, code=error.code or error.kind)
