"""Signatures as the reference library checks them, and the pauses between tries."""

import json
import time
from datetime import UTC, datetime, timedelta

import pytest
from standardwebhooks import Webhook, WebhookVerificationError

from app.domain.webhooks.retries import LASTS, Outcome, pause, retry_after
from app.domain.webhooks.signature import message_body, secret_text, signed_headers

ONE, TWO, OTHER = (secret_text(bytes([n]) * 32) for n in (1, 2, 3))
AT = "2026-01-01T00:00:00.000Z"
ABOUT = {"tenant_id": "tenant_1", "name": "ümlaut", "n": 1}
BODY = message_body("event_1", "lease.active", AT, ABOUT)


def test_the_reference_library_accepts_a_message_with_each_secret_that_signed_and_no_other() -> None:
    headers = signed_headers([ONE, TWO], "event_1", int(time.time()), BODY)
    for secret in (ONE, TWO):
        assert Webhook(secret).verify(BODY, headers) == json.loads(BODY)
    with pytest.raises(WebhookVerificationError):
        Webhook(OTHER).verify(BODY, headers)


@pytest.mark.parametrize("part", ["body", "webhook-id", "webhook-timestamp"])
def test_whatever_is_signed_cannot_be_changed(part: str) -> None:
    now = int(time.time())
    headers = signed_headers([ONE], "event_1", now, BODY)
    body = BODY + b" " if part == "body" else BODY
    changed = {**headers, part: str(now + 1)} if part != "body" else headers
    with pytest.raises(WebhookVerificationError):
        Webhook(ONE).verify(body, changed)


def test_the_same_message_is_the_same_bytes() -> None:
    assert message_body("event_1", "lease.active", AT, dict(ABOUT)) == BODY
    assert json.loads(BODY) == {"type": "lease.active", "timestamp": AT, "data": {"id": "event_1", **ABOUT}}


NOW = datetime(2026, 11, 28, 9, 0, 0, tzinfo=UTC)


@pytest.mark.parametrize(
    ("status", "text", "seconds"),
    [
        (429, "30", 30),
        (503, "0", 0),
        (429, "Sat, 28 Nov 2026 09:01:00 GMT", 60),
        (429, "Sat, 28 Nov 2026 09:01:00 -0000", 60),
        (503, "Sat, 28 Nov 2026 08:00:00 GMT", 0),
        (429, "Sun, 28 Nov 2027 09:00:00 GMT", 3600),
        (429, "86400", 3600),
        (429, "9" * 4001, 3600),
        (429, "", 0),
        (429, "-5", 0),
        (429, "1.5", 0),
        (429, "soon", 0),
        (429, "Sat, 99 Nov 99999 09:00:00 GMT", 0),
        (500, "30", 0),
        (404, "30", 0),
    ],
)
def test_a_receiver_may_ask_for_a_pause_of_up_to_an_hour(status: int, text: str, seconds: int) -> None:
    assert retry_after(status, text, NOW) == timedelta(seconds=seconds)


def test_pauses_grow_to_an_hour_and_spread() -> None:
    middle = [pause(tries, 0.5).total_seconds() for tries in range(1, 10)]
    assert middle == [5, 15, 45, 135, 405, 1215, 3600, 3600, 3600]
    assert pause(3, 0.0).total_seconds() == pytest.approx(36)
    assert pause(3, 1.0).total_seconds() == pytest.approx(54)
    assert sum(middle[:6]) + 72 * 3600 > LASTS.total_seconds() > 70 * 3600


@pytest.mark.parametrize(
    ("status", "delivered", "gone", "away"),
    [
        (200, True, False, False),
        (204, True, False, False),
        (299, True, False, False),
        (302, False, False, False),
        (400, False, False, False),
        (410, False, True, False),
        (429, False, False, True),
        (500, False, False, False),
        (503, False, False, True),
        (None, False, False, True),
    ],
)
def test_what_an_answer_means(status: int | None, delivered: bool, gone: bool, away: bool) -> None:
    outcome = Outcome(status=status)
    assert (outcome.delivered, outcome.gone, outcome.away) == (delivered, gone, away)
