"""The reason that is shown when no candidate is left."""

from collections.abc import Sequence
from decimal import Decimal
from typing import Any

import pytest

from app.domain.boot_sizes import TOO_LONG
from app.domain.explanations.placement_failure import NO_ANSWER, could_not_ask, not_listed, why_exhausted
from app.domain.offerings import Offering
from app.domain.placement import Ranking, Requirements, rank
from app.domain.reasons import Origin, Reason, ReasonCode
from tests.domain.samples import NOW, ahead, cool_off, offering


def ranking(wish: Requirements, *offerings: Offering) -> Ranking:
    return rank(wish, offerings, NOW)


EMPTY = ranking(Requirements())
ERROR = {"class": "InsufficientCapacity", "code": "InsufficientInstanceCapacity", "message": "none in us-east-1a"}


def why(*errors: dict[str, Any], over_quota: int = 0, of: Ranking = EMPTY, not_ready: Sequence[Reason] = ()) -> Reason:
    return why_exhausted(of, errors, over_quota, not_ready)


@pytest.mark.parametrize(
    ("kind", "code"),
    [
        ("InsufficientCapacity", ReasonCode.CAPACITY_EXHAUSTED),
        ("NotOffered", ReasonCode.CAPACITY_EXHAUSTED),
        ("ProviderQuotaExceeded", ReasonCode.PROVIDER_QUOTA),
        ("ImageMissing", ReasonCode.IMAGE_MISSING),
        ("InvalidSpec", ReasonCode.PROVIDER_ERROR),
    ],
)
def test_refusals_of_one_kind_name_that_kind(kind: str, code: ReasonCode) -> None:
    reason = why({**ERROR, "class": kind}, {**ERROR, "class": kind})
    assert (reason.code, reason.origin) == (code, Origin.PROVIDER)
    assert "InsufficientInstanceCapacity" in reason.message
    assert "none in us-east-1a" not in reason.message
    assert reason.provider_message == "InsufficientInstanceCapacity: none in us-east-1a"


def test_a_request_that_is_too_long_everywhere_is_the_callers_and_no_later_try_helps() -> None:
    own = {"class": "InvalidSpec", "code": TOO_LONG, "message": "keys and script make 17000 bytes"}
    reason = why(own, own)
    assert (reason.code, reason.origin, reason.retryable) == (ReasonCode.REQUEST_TOO_LONG, Origin.USER, False)
    assert why(own, ERROR).retryable, "a cloud with more room may have capacity later"


def test_refusals_of_several_kinds_are_a_lack_of_capacity() -> None:
    other = {**ERROR, "class": "ProviderQuotaExceeded"}
    assert why(ERROR, other).code is why(other, ERROR).code is ReasonCode.CAPACITY_EXHAUSTED


def test_a_refusal_without_a_code_is_named_by_its_class() -> None:
    reason = why({**ERROR, "code": None})
    assert "InsufficientCapacity: the provider has no capacity" in reason.message
    assert reason.provider_message == "none in us-east-1a"


def test_first_hand_refusals_go_before_everything_else() -> None:
    assert why(ERROR, over_quota=3, of=ranking(Requirements(max_price_per_hour=Decimal(0)), offering())).code is (
        ReasonCode.CAPACITY_EXHAUSTED
    )


def test_offerings_over_the_quota_are_said_so() -> None:
    reason = why(over_quota=3, of=ranking(Requirements(), offering()))
    assert (reason.code, reason.origin, reason.retryable) == (ReasonCode.QUOTA_EXCEEDED, Origin.SYSTEM, False)


def test_offerings_all_in_cool_off_are_a_lack_of_capacity() -> None:
    reason = why(of=ranking(Requirements(), offering(cool_off=cool_off(ahead(60)))))
    assert (reason.code, reason.retryable) == (ReasonCode.CAPACITY_EXHAUSTED, True)


def test_a_cap_below_every_price_is_said_so() -> None:
    assert why(of=ranking(Requirements(max_price_per_hour=Decimal("0.5")), offering())).code is ReasonCode.PRICE_CAP


def test_accounts_set_aside_are_said_so() -> None:
    reason = why(of=ranking(Requirements(), offering(account_problem="keys expired")))
    assert reason.code is ReasonCode.PROVIDER_AUTH
    assert "keys expired" not in reason.message, "what goes on in an account is the operators' business"
    assert "keys expired" in (reason.provider_message or "")


def test_rejected_credentials_are_said_without_the_providers_words() -> None:
    reason = why({**ERROR, "class": "CredentialsRejected"})
    assert (reason.code, reason.origin) == (ReasonCode.PROVIDER_AUTH, Origin.PROVIDER)
    assert "none in us-east-1a" not in reason.message


def test_an_empty_catalogue_is_a_lack_of_capacity() -> None:
    assert why().code is ReasonCode.CAPACITY_EXHAUSTED


@pytest.mark.parametrize(("failed", "origin"), [(False, Origin.SYSTEM), (True, Origin.PROVIDER)])
def test_a_region_that_was_not_listed_is_said_so_and_not_taken_for_a_lack_of_capacity(
    failed: bool, origin: Origin
) -> None:
    unlisted = not_listed("aws", "us-east-1", failed=failed)
    reason = why(over_quota=1, of=ranking(Requirements(), offering()), not_ready=[unlisted, NO_ANSWER])
    assert reason == unlisted
    assert (reason.code, reason.origin, reason.retryable) == (ReasonCode.REGION_NOT_LISTED, origin, True)
    assert reason.message.startswith("no complete listing of the region yet")
    assert "us-east-1 at aws" in reason.message


def test_a_provider_that_could_not_be_asked_is_said_so() -> None:
    reason = why(not_ready=[could_not_ask("RequestLimitExceeded")])
    assert (reason.code, reason.origin) == (ReasonCode.PROVIDER_ERROR, Origin.PROVIDER)
    assert "RequestLimitExceeded" in reason.message
    assert "no code" in could_not_ask(None).message


def test_first_hand_refusals_go_before_places_that_were_not_ready() -> None:
    assert why(ERROR, not_ready=[NO_ANSWER]).code is ReasonCode.CAPACITY_EXHAUSTED
