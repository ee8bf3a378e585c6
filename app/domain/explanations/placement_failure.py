"""Why no candidate remained: the one reason from which the tenant learns what to change."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from app.domain.boot_sizes import TOO_LONG
from app.domain.error_kinds import ErrorKind
from app.domain.placement import Exclusion, Ranking
from app.domain.provider_messages import provider_words, public_answer, public_code
from app.domain.reasons import Origin, Reason, ReasonCode

NO_ANSWER = Reason(ReasonCode.PROVIDER_ERROR, "the provider gives no answer at present", Origin.PROVIDER)
"""Shown for an account and region whose cloud did not answer a moment ago."""

_BY_ERROR = {
    ErrorKind.PROVIDER_QUOTA_EXCEEDED: (
        ReasonCode.PROVIDER_QUOTA,
        "the installation's own quota at the provider is used up",
    ),
    ErrorKind.LAUNCH_TIMEOUT: (ReasonCode.LAUNCH_TIMEOUT, "the provider started none of the VMs in time"),
    ErrorKind.UNREACHABLE: (ReasonCode.PROVIDER_ERROR, "no connection to the provider could be made"),
    ErrorKind.IMAGE_MISSING: (ReasonCode.IMAGE_MISSING, "no driver-ready image is found"),
    ErrorKind.INVALID_SPEC: (ReasonCode.PROVIDER_ERROR, "the provider did not accept the launch parameters"),
}

_ACCOUNT_REFUSED = (ErrorKind.CREDENTIALS_REJECTED, ErrorKind.ACCOUNT_BLOCKED, ErrorKind.REGION_BLOCKED)


def why_exhausted(
    ranking: Ranking,
    errors: Sequence[dict[str, Any]],
    over_quota: int,
    not_ready: Sequence[Reason] = (),
    passed_over: Sequence[Reason] = (),
    *,
    over_budget: int = 0,
) -> Reason:
    """The reason for a pass without a plan. `errors`: the failures of the pass as stored on its attempts.

    `over_quota`, `over_budget`: number of offerings skipped for quota, or for a budget. `not_ready`: why accounts and regions with candidates could
    not be used, starting with the best candidate's. `passed_over`: why offerings could not be
    planned for this lease: a reservation without a free slot, or a price above its quote.
    """
    if errors:
        return _from_errors(errors)
    if not_ready:
        return not_ready[0]
    if over_budget or over_quota:
        return _over_limits(over_quota, over_budget)
    if passed_over:
        return passed_over[0]
    if ranking.candidates:
        return no_capacity("every offering that fits is in cool-off after refusals")
    return _from_exclusions(ranking)


def _over_limits(over_quota: int, over_budget: int) -> Reason:
    if over_budget:
        message = f"what a budget leaves does not cover any of the {over_budget} requested offerings"
        return Reason(ReasonCode.BUDGET_EXCEEDED, message)
    return Reason(ReasonCode.QUOTA_EXCEEDED, f"the quota left does not cover any of the {over_quota} offerings")


AUTH = Reason(
    ReasonCode.PROVIDER_AUTH,
    "the provider refuses the installation's account; its operators see why",
    Origin.PROVIDER,
)


def not_listed(provider: str, region: str, *, failed: bool) -> Reason:
    """The reason for a region without a complete listing: gpulease launches nothing there before one.

    `failed`: an inventory process tried to list the region. Otherwise no inventory process has listed it yet.
    """
    if failed:
        why, origin = f"listing {region} at {provider} fails", Origin.PROVIDER
    else:
        why, origin = f"gpulease launches in {region} at {provider} once its inventory has listed it", Origin.SYSTEM
    return Reason(ReasonCode.REGION_NOT_LISTED, f"no complete listing of the region yet: {why}", origin)


def could_not_ask(error: str | None) -> Reason:
    """The provider answered the account check with an error that is no refusal. `error` is the error's code."""
    return Reason(ReasonCode.PROVIDER_ERROR, f"the provider could not be asked: {error or 'no code'}", Origin.PROVIDER)


REQUEST_TOO_LONG = Reason(
    ReasonCode.REQUEST_TOO_LONG,
    "the start-up script and the SSH keys are too long for every offering that fits",
    Origin.USER,
)
"""gpulease found this itself, so no later try can succeed."""


def _from_errors(errors: Sequence[dict[str, Any]]) -> Reason:
    if all(error.get("code") == TOO_LONG for error in errors):
        return REQUEST_TOO_LONG
    if all(error.get("class") in _ACCOUNT_REFUSED for error in errors):
        return replace(AUTH, provider_message=provider_words(errors[-1]))
    kinds = {error.get("class") for error in errors}
    if ErrorKind.GPU_CHECK_FAILED in kinds:
        failed = sum(error.get("class") == ErrorKind.GPU_CHECK_FAILED for error in errors)
        message = f"of {len(errors)} offerings tried, {failed} gave a VM whose GPUs failed their check"
        return Reason(ReasonCode.GPU_CHECK_FAILED, message, Origin.PROVIDER)
    words = provider_words(errors[-1])
    same = next((_BY_ERROR[kind] for kind in _BY_ERROR if kinds == {kind}), None)
    if same is not None:
        code, what = same
        last = public_code(errors[-1].get("code"))
        return Reason(code, what if last is None else f"{what}; last answer: {last}", Origin.PROVIDER, words)
    message = f"{len(errors)} offerings refused; last answer: {public_answer(errors[-1])}"
    return Reason(ReasonCode.CAPACITY_EXHAUSTED, message, Origin.PROVIDER, words)


def _from_exclusions(ranking: Ranking) -> Reason:
    details = {excluded.code: excluded.detail for excluded in reversed(ranking.excluded)}
    code = next((code for code in _BY_EXCLUSION if code in details), None)
    if code is Exclusion.RESERVATION:
        return no_capacity(details[code])
    if code is Exclusion.ACCOUNT:
        return replace(AUTH, provider_message=details[code])
    return no_capacity("no offering fits the request at present") if code is None else _BY_EXCLUSION[code]


def no_capacity(message: str) -> Reason:
    """The reason where no offering can take the lease at present."""
    return Reason(ReasonCode.CAPACITY_EXHAUSTED, message, Origin.SYSTEM)


_BY_EXCLUSION: Mapping[Exclusion, Reason] = {
    Exclusion.PRICE_CAP: Reason(ReasonCode.PRICE_CAP, "every offering that fits costs more than max_price_per_hour"),
    Exclusion.QUOTE: Reason(ReasonCode.PRICE_CAP, "every offering that fits costs more than the quote"),
    Exclusion.SPEND_CAP: Reason(
        ReasonCode.SPEND_CAP, "what is left of max_cost pays no offering that fits for a minute"
    ),
    Exclusion.IMAGE: Reason(
        ReasonCode.IMAGE_MISSING, "no account of the offerings that fit has the requested image any more"
    ),
    Exclusion.RESERVATION: no_capacity("no reservation that fits can be used"),
    Exclusion.ACCOUNT: AUTH,
    Exclusion.CORDONED: no_capacity("every offering that fits is cordoned by an operator"),
    Exclusion.RESERVED_ONLY: no_capacity("the types that fit are sold only as reserved capacity, and none is reserved"),
    Exclusion.NO_DRIVER_IMAGE: Reason(
        ReasonCode.IMAGE_MISSING, "no account names an image with the driver of the types that fit"
    ),
}
"""The reason where nothing is a candidate: that of the first rule here that excludes an offering.

For a reservation, the detail of its exclusion takes the place of the message. For an account, the detail holds the
provider's own words, which only operators read.
"""
