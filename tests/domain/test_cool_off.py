"""For how long refusals set offerings aside."""

import pytest

from app.domain.cool_off import CoolOffPause, CoolOffReason, CoolOffSeconds, after_end, after_error
from app.domain.error_kinds import ErrorKind
from app.domain.reasons import ReasonCode

TIMES = CoolOffSeconds(capacity=180, quota=600, not_offered=3600, outage=45, outage_longest=300)


@pytest.mark.parametrize(
    ("kind", "seconds", "longest", "reason"),
    [
        (ErrorKind.INSUFFICIENT_CAPACITY, 180, 3600, CoolOffReason.NO_CAPACITY),
        (ErrorKind.PRICE_TOO_LOW, 180, 3600, CoolOffReason.NO_CAPACITY),
        (ErrorKind.PROVIDER_QUOTA_EXCEEDED, 600, 3600, CoolOffReason.PROVIDER_QUOTA),
        (ErrorKind.NOT_OFFERED, 3600, 3600, CoolOffReason.NOT_OFFERED),
        (ErrorKind.OUTCOME_UNKNOWN, 45, 300, CoolOffReason.PROVIDER_ERROR),
        (ErrorKind.UNREACHABLE, 45, 300, CoolOffReason.PROVIDER_ERROR),
        (ErrorKind.INVALID_SPEC, 600, 3600, CoolOffReason.REFUSED),
    ],
)
def test_a_refusal_sets_its_offering_aside(
    kind: ErrorKind, seconds: float, longest: float, reason: CoolOffReason
) -> None:
    assert after_error(kind, TIMES) == CoolOffPause(seconds=seconds, longest=longest, reason=reason)


def test_the_longest_pause_is_never_shorter_than_the_first() -> None:
    times = CoolOffSeconds(capacity=180, quota=7200, not_offered=3600, outage=45, outage_longest=300)
    assert after_error(ErrorKind.PROVIDER_QUOTA_EXCEEDED, times).longest == 7200


def test_an_offering_rests_after_an_end_that_was_its_own_fault() -> None:
    own_fault = (ReasonCode.INTERRUPTED, ReasonCode.BOOT_TIMEOUT, ReasonCode.LAUNCH_TIMEOUT)
    rests = {code: CoolOffPause(seconds=180, longest=3600, reason=CoolOffReason(code)) for code in own_fault}
    assert {code: after_end(code, TIMES) for code in ReasonCode} == dict.fromkeys(ReasonCode) | rests
