"""Whether an account and region may be used now: its identity is verified, its cloud answers, and the region was listed."""

from dataclasses import replace
from datetime import timedelta
from typing import NoReturn

from app.db.fleet import offering_stats
from app.domain.cool_off import CoolOffReason, after_problem
from app.domain.explanations.placement_failure import AUTH, NO_ANSWER, could_not_ask, not_listed
from app.domain.offerings import Offering, OfferingKey
from app.domain.provider_messages import provider_words
from app.domain.reasons import Reason
from workers.lifecycle.steps.context import StepContext
from workers.providers.errors import CredentialsRejected, OutcomeUnknown, ProviderError, Unreachable
from workers.runtime.accounts import error_json

RETRY_PAUSE = timedelta(seconds=2)
LONGEST_RETRY_PAUSE = timedelta(seconds=10)
_UNLISTED_PAUSE = timedelta(seconds=0.5)
_PROBLEM_COOL_OFF = 60.0


class NotReadyError(Exception):
    """The account or region may not be used at present. Others are tried, and this one again after `pause`."""

    def __init__(self, pause: timedelta, reason: Reason) -> None:
        super().__init__()
        self.pause = pause
        self.reason = reason


def require_trust(ctx: StepContext, offering: Offering) -> None:
    """Requires a verified identity and a complete listing since this process started, or raises NotReadyError."""
    runtime, key = ctx.runtime, offering.key
    try:
        runtime.accounts.require_identity(key.account)
    except CredentialsRejected as error:
        runtime.catalogue.forget()
        words = provider_words(error_json(error))
        raise NotReadyError(RETRY_PAUSE, replace(AUTH, provider_message=words)) from error
    except (OutcomeUnknown, Unreachable) as error:
        out_of_reach(ctx, offering, error)
    except ProviderError as error:
        raise NotReadyError(RETRY_PAUSE, could_not_ask(error.code)) from error
    if not runtime.first_listings.done(key.account, key.region):
        failed = runtime.first_listings.failed(key.account, key.region)
        raise NotReadyError(_UNLISTED_PAUSE, not_listed(offering.provider, key.region, failed=failed))


def out_of_reach(ctx: StepContext, offering: Offering, error: ProviderError) -> NoReturn:
    """Raises NotReadyError with a pause that grows with the outage of the cloud.

    After `unreachable_seconds` the offering goes into cool-off, and `error` is raised.
    """
    runtime, key = ctx.runtime, offering.key
    away = timedelta(seconds=runtime.accounts.out_of_reach(key.account))
    if away < timedelta(seconds=runtime.settings.unreachable_seconds):
        raise NotReadyError(min(LONGEST_RETRY_PAUSE, max(RETRY_PAUSE, away / 2)), NO_ANSWER) from error
    if not offering.cooling(ctx.now):
        set_aside(ctx, key, CoolOffReason.PROVIDER_ERROR, error)
    raise error


def set_aside(ctx: StepContext, key: OfferingKey, reason: CoolOffReason, error: ProviderError) -> None:
    """Puts the offering into cool-off for a problem that is no refusal of a launch."""
    pause = after_problem(reason, _PROBLEM_COOL_OFF)
    ctx.runtime.database.run(offering_stats.cool_off(key, pause, code=error.code))
    ctx.runtime.catalogue.forget()
