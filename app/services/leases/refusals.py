"""Refusals of leases in words: what exceeds the quota, and why no offering fits."""

from typing import Any

from app.domain.explanations.near_misses import ExcludedGroup, describe
from app.domain.placement import Excluded
from app.domain.quotas import Shortage, json_amount, json_limit
from app.domain.vm_parts import PartsRequest
from app.services.errors import NoOffering, QuotaExceeded
from app.services.request_checks import PASSING, CheckedRequest


def quota_exceeded(short: list[Shortage], *, members: int = 1) -> QuotaExceeded:
    """Names every shortage. The fields of the first one are also at the top level. `members`: leases that asked."""
    each = [
        {
            "resource": s.resource,
            "limit": json_limit(s.resource, s.limit),
            "used": json_amount(s.resource, s.used),
            "asked": json_amount(s.resource, s.asked),
        }
        for s in short
    ]
    sentences = "; ".join(_shortage(s) for s in short)
    many = f" for {members} members" if members > 1 else ""
    return QuotaExceeded(f"Quota exceeded{many}: {sentences}.", extra={**each[0], "shortages": each})


def no_offering(checked: CheckedRequest, *, operator: bool) -> NoOffering:
    """Why nothing fits: one entry for each reason, the most frequent first, with the nearest offering."""
    excluded = checked.ranked.ranking.excluded
    cause = checked.snapshot.catalogue_error(operator=operator)
    if checked.near is None or not excluded:
        detail = "The catalogue is empty: gpulease has not read the offerings of any account yet."
        if cause is not None:
            detail = f"The catalogue is empty. {cause}"
        return NoOffering(detail, extra={"excluded": []}, retryable=True)
    groups = checked.near.groups
    detail = f"None of {len(excluded)} offerings fits: {', '.join(group.message for group in groups)}."
    if cause is not None:
        detail = f"{detail} {cause}"
    passing = not checked.snapshot.is_complete or any(group.code in PASSING for group in groups)
    parts = checked.new.request.parts
    entries = [_excluded(group, parts, operator=operator) for group in groups]
    return NoOffering(detail, extra={"excluded": entries}, retryable=passing)


def _excluded(group: ExcludedGroup, parts: PartsRequest, *, operator: bool) -> dict[str, Any]:
    nearest = f"{describe(group.nearest.offering, parts)}: {exclusion_detail(group.nearest, operator=operator)}"
    return {"code": group.code, "count": group.count, "message": group.message, "nearest": nearest}


def exclusion_detail(exclusion: Excluded, *, operator: bool) -> str:
    """The sentence for a person. Only operators see details of a provider account."""
    if exclusion.code == "account" and not operator:
        return "its provider account is set aside at present"
    return exclusion.detail


def _shortage(short: Shortage) -> str:
    limit = "none is allowed" if short.limit is None else f"limit {json_amount(short.resource, short.limit)}"
    used, asked = (json_amount(short.resource, amount) for amount in (short.used, short.asked))
    return f"{short.resource} ({limit}, used {used}, asked {asked})"
