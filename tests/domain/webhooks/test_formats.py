"""A message to people is one plain sentence."""

import json
from typing import Any

import pytest

from app.domain.event_types import EventType
from app.domain.webhooks.formats import WebhookFormat, WebhookMessage, check_format, render
from app.domain.webhooks.sentences import SENTENCES, sentence
from tests.domain.event_samples import sample

LEASE = "lease_01jz0000000000000000000000"
DASHBOARD = "https://gpu.example.org/dashboard/"


def message(kind: str, about: dict[str, Any], **more: Any) -> WebhookMessage:
    given: dict[str, Any] = {
        "id": "event_1",
        "type": kind,
        "created_at": "2026-11-01T10:00:00Z",
        "about": about,
        "sent_at": 1,
    }
    return WebhookMessage(**{**given, **more})


def slack(kind: str, about: dict[str, Any], **more: Any) -> tuple[str, str]:
    """The text, and what the block shows."""
    request = render(WebhookFormat.SLACK, message(kind, about, **more), ["whsec_x"])
    assert request.headers == {}
    body = json.loads(request.body)
    (block,) = body["blocks"]
    assert (block["type"], block["text"]["type"]) == ("section", "mrkdwn")
    return body["text"], block["text"]["text"]


def test_each_event_is_one_sentence_without_a_gap() -> None:
    assert set(EventType) <= SENTENCES.keys()
    for kind in SENTENCES:
        about = {"lease_id": LEASE, **(sample(kind).as_json() if kind in set(EventType) else {})}
        told = sentence(kind, about, lease_name="train")
        assert told.endswith("."), kind
        assert not {"{", "}"} & set(told), kind
        assert "unknown" not in told, kind
        assert ": ." not in told, kind


def test_the_sentence_names_the_lease_the_place_and_the_cause() -> None:
    error = {"message": "no capacity"}
    about = {"lease_id": LEASE, "offering": {"instance_type": "g5.xlarge", "zone": "us-east-1a"}, "error": error}
    told = sentence("attempt.refused", about, lease_name="train")
    assert told == "The provider refused a VM for lease train, g5.xlarge in us-east-1a: no capacity."
    assert (
        sentence("lease.released", {"lease_id": LEASE, "reason": None}, lease_name=None) == f"Lease {LEASE} has ended."
    )
    earlier = {"lease_id": LEASE, "expires_at": "2026-11-01T10:00:00Z"}
    assert sentence("lease.expiring_soon", earlier, lease_name="t") == "Lease t ends at 2026-11-01T10:00:00Z."


def test_a_type_that_is_new_has_a_sentence_too() -> None:
    assert sentence("lease.painted", {}, lease_name=None) == "The event lease.painted happened."


def test_slack_gets_a_link_to_the_dashboard_where_its_url_is_known() -> None:
    text, shown = slack("lease.active", {"lease_id": LEASE}, lease_name="train", dashboard=DASHBOARD)
    assert text == "Lease train is ready to use."
    assert shown == f"{text} <{DASHBOARD}#/leases/{LEASE}|Show the lease>"
    text, shown = slack("quota.nearly_used", {"resource": "gpus", "used": 8, "limit": 8}, dashboard=DASHBOARD)
    assert shown == f"Nine tenths of the quota gpus are used: 8 of 8. <{DASHBOARD}#/events|Show the events>"
    text, shown = slack("lease.active", {"lease_id": LEASE})
    assert (text, shown) == (f"Lease {LEASE} is ready to use.",) * 2


def test_no_name_can_write_a_link_or_mention_everybody() -> None:
    text, shown = slack("lease.active", {"lease_id": LEASE}, lease_name="<!channel> & <https://evil|x>")
    assert text == shown == "Lease &lt;!channel&gt; &amp; &lt;https://evil|x&gt; is ready to use."


def test_a_cloudevent_has_the_attributes_of_the_specification() -> None:
    told = message("usage.hour", {"tenant_id": "tenant_1", "n": 1}, id="attempt_1-2026010100-0")
    request = render(WebhookFormat.CLOUDEVENTS, told, ["whsec_AAAA"])
    assert request.media_type == "application/cloudevents+json"
    assert set(request.headers) == {"webhook-id", "webhook-timestamp", "webhook-signature"}
    assert json.loads(request.body) == {
        "specversion": "1.0",
        "id": "attempt_1-2026010100-0",
        "source": "gpulease",
        "type": "usage.hour",
        "subject": "tenant_1",
        "time": "2026-11-01T10:00:00Z",
        "datacontenttype": "application/json",
        "data": {"tenant_id": "tenant_1", "n": 1},
    }


def test_records_of_use_need_the_format_cloudevents() -> None:
    check_format(None, WebhookFormat.STANDARD)
    check_format(["usage.hour", "lease.active"], WebhookFormat.CLOUDEVENTS)
    with pytest.raises(ValueError, match=r"usage\.hour needs the format cloudevents"):
        check_format(["lease.active", "usage.hour"], WebhookFormat.STANDARD)
