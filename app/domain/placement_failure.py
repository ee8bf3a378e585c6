"""Why no candidate was left: the one reason that tells the tenant what to change."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from app.domain.error_kinds import ErrorKind
from app.domain.placement import Exclusion, Ranking
from app.domain.provider_messages import provider_words, public_answer, public_code
from app.domain.reasons import Origin, Reason, ReasonCode

NO_ANSWER = Reason(ReasonCode.PROVIDER_ERROR, "the provider gives no answer at present", Origin.PROVIDER)
"""Shown for a place whose cloud did not answer a moment ago."""

_BY_ERROR = {
    ErrorKind.PROVIDER_QUOTA_EXCEEDED: (
        ReasonCode.PROVIDER_QUOTA,
        "the installation's own quota at the provider is used up",
    ),
    ErrorKind.UNREACHABLE: (ReasonCode.PROVIDER_ERROR, "no connection to the provider could be made"),
    ErrorKind.IMAGE_MISSING: (ReasonCode.IMAGE_MISSING, "no driver-ready image is found"),
    ErrorKind.INVALID_SPEC: (ReasonCode.PROVIDER_ERROR, "the provider did not accept the launch parameters"),
}


def why_exhausted(
    ranking: Ranking, errors: Sequence[dict[str, Any]], over_quota: int, not_ready: Sequence[Reason] = ()
) -> Reason:
    """`errors`: the failures of this pass as stored on its attempts; `over_quota`: offerings skipped for quota.

    `not_ready`: why accounts and regions with candidates could not be used, the best candidate's first.
    """
    if errors:
        return _from_errors(errors)
    if not_ready:
        return not_ready[0]
    if over_quota:
        return Reason(
            ReasonCode.QUOTA_EXCEEDED, f"the quota left does not cover any of the {over_quota} offerings", Origin.SYSTEM
        )
    if ranking.candidates:
        return _no_capacity("every offering that fits is in cool-off after refusals")
    return _from_exclusions(ranking)


AUTH = Reason(
    ReasonCode.PROVIDER_AUTH,
    "the provider refuses the installation's credentials; its operators see why",
    Origin.PROVIDER,
)


def not_listed(provider: str, region: str, *, failed: bool) -> Reason:
    """Nothing is launched in a region before a complete listing has shown what runs there.

    `failed`: somebody tried to list it. Otherwise no inventory process has come to it yet.
    """
    if failed:
        why, origin = f"listing {region} at {provider} fails", Origin.PROVIDER
    else:
        why, origin = f"gpulease launches in {region} at {provider} once its inventory has listed it", Origin.SYSTEM
    return Reason(ReasonCode.REGION_NOT_LISTED, f"no complete listing of the region yet: {why}", origin)


def could_not_ask(error: str | None) -> Reason:
    """The provider answered the check of the account with another error than a refusal; `error` is its code."""
    return Reason(ReasonCode.PROVIDER_ERROR, f"the provider could not be asked: {error or 'no code'}", Origin.PROVIDER)


def _from_errors(errors: Sequence[dict[str, Any]]) -> Reason:
    if all(error.get("class") == ErrorKind.CREDENTIALS_REJECTED for error in errors):
        return replace(AUTH, provider_message=provider_words(errors[-1]))
    kinds = {error.get("class") for error in errors}
    words = provider_words(errors[-1])
    same = next((_BY_ERROR[kind] for kind in _BY_ERROR if kinds == {kind}), None)
    if same is not None:
        code, what = same
        last = public_code(errors[-1].get("code"))
        return Reason(code, what if last is None else f"{what}; last answer: {last}", Origin.PROVIDER, words)
    message = f"{len(errors)} offerings refused; last answer: {public_answer(errors[-1])}"
    return Reason(ReasonCode.CAPACITY_EXHAUSTED, message, Origin.PROVIDER, words)


def _from_exclusions(ranking: Ranking) -> Reason:
    codes = Counter(excluded.code for excluded in ranking.excluded)
    if codes[Exclusion.PRICE_CAP]:
        return Reason(ReasonCode.PRICE_CAP, "every offering that fits costs more than max_price_per_hour")
    if codes[Exclusion.IMAGE]:
        return Reason(ReasonCode.IMAGE_MISSING, "no account of the offerings that fit has the image asked for any more")
    if codes[Exclusion.ACCOUNT]:
        return AUTH
    return _no_capacity("no offering fits the request at present")


def _no_capacity(message: str) -> Reason:
    return Reason(ReasonCode.CAPACITY_EXHAUSTED, message, Origin.SYSTEM)
