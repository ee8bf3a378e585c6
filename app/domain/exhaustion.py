"""Why no candidate was left: the one reason that tells the tenant what to change."""

from collections import Counter
from collections.abc import Sequence
from typing import Any

from app.domain.placement import Exclusion, Ranking
from app.domain.reasons import Origin, Reason, ReasonCode

_BY_ERROR = {
    "ProviderQuotaExceeded": (ReasonCode.PROVIDER_QUOTA, "the installation's own quota at the provider is used up"),
    "Unreachable": (ReasonCode.PROVIDER_ERROR, "no connection to the provider could be made"),
    "ImageMissing": (ReasonCode.IMAGE_MISSING, "no driver-ready image is found"),
    "InvalidSpec": (ReasonCode.PROVIDER_ERROR, "the provider did not accept the launch parameters"),
}


def why_exhausted(ranking: Ranking, errors: Sequence[dict[str, Any]], over_quota: int) -> Reason:
    """`errors`: the failures of this pass as stored on its attempts; `over_quota`: offerings skipped for quota."""
    if errors:
        return _from_errors(errors)
    if over_quota:
        return Reason(
            ReasonCode.QUOTA_EXCEEDED, f"the quota left does not cover any of the {over_quota} offerings", Origin.SYSTEM
        )
    if ranking.candidates:
        return _no_capacity("every offering that fits is in cool-off after refusals", Origin.SYSTEM)
    return _from_exclusions(ranking)


_AUTH = Reason(
    ReasonCode.PROVIDER_AUTH,
    "the provider refuses the installation's credentials; its operators see why",
    Origin.PROVIDER,
)


def _from_errors(errors: Sequence[dict[str, Any]]) -> Reason:
    if all(error.get("class") == "CredentialsRejected" for error in errors):
        return _AUTH
    kinds = Counter(str(error.get("class")) for error in errors)
    last = errors[-1]
    said = f"{last.get('code') or last.get('class')}: {last.get('message')}"
    if len(kinds) == 1 and next(iter(kinds)) in _BY_ERROR:
        code, what = _BY_ERROR[next(iter(kinds))]
        return Reason(code, f"{what}; last answer: {said}", Origin.PROVIDER)
    return _no_capacity(f"{len(errors)} offerings refused; last answer: {said}", Origin.PROVIDER)


def _from_exclusions(ranking: Ranking) -> Reason:
    codes = Counter(excluded.code for excluded in ranking.excluded)
    if codes[Exclusion.PRICE_CAP]:
        return Reason(ReasonCode.PRICE_CAP, "every offering that fits costs more than max_price_per_hour")
    if codes[Exclusion.IMAGE]:
        return Reason(ReasonCode.IMAGE_MISSING, "no account of the offerings that fit has the image asked for any more")
    if codes[Exclusion.ACCOUNT]:
        return _AUTH
    return _no_capacity("no offering fits the request at present", Origin.SYSTEM)


def _no_capacity(message: str, origin: Origin) -> Reason:
    return Reason(ReasonCode.CAPACITY_EXHAUSTED, message, origin)
