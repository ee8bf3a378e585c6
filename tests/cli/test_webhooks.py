"""`gpulease webhooks`."""

import json
import signal

import pytest

from app.domain.webhooks.signature import message_body, signed_headers
from tests.cli.conftest import Cli
from tests.cli.fake_api import TENANT_ID, FakeApi, Json
from tests.cli.installation import an_event
from tests.workers.receiver import receiving

HOOK = "webhook_01m84jncx1es4vd0pkyemx4c86"
PATH = f"/v1/webhooks/{HOOK}"


@pytest.fixture
def hook(api: FakeApi) -> Json:
    hook: Json = {
        "id": HOOK,
        "url": "https://hooks.example.org/gpulease",
        "event_types": ["lease.failed"],
        "enabled": False,
        "disabled_reason": "gone",
        "created_at": "2026-06-01T10:00:00Z",
    }
    api.documents["GET", "/v1/webhooks"] = {"items": [hook], "next_cursor": None}
    api.documents["GET", PATH] = hook
    return hook


def test_webhooks_are_listed_with_their_state(hook: Json, cli: Cli) -> None:
    shown = cli("webhooks", "list").stdout
    for fact in (HOOK, "https://hooks.example.org/gpulease", "lease.failed", "no: gone"):
        assert fact in shown


def test_the_secret_of_a_new_webhook_is_shown_once(api: FakeApi, cli: Cli) -> None:
    api.documents["POST", "/v1/webhooks"] = {"id": HOOK, "secret": "whsec_new"}
    result = cli("webhooks", "create", "https://h.example", "--event", "lease.failed", "--event", "lease.active")
    assert "whsec_new" in result.stdout
    assert "not shown again" in result.stderr
    (asked,) = api.calls("POST", "/v1/webhooks")
    assert asked.body == {"url": "https://h.example", "event_types": ["lease.failed", "lease.active"]}
    assert asked.headers["idempotency-key"]


@pytest.mark.parametrize("reference", [HOOK, "webhook_…yemx4c86"])
def test_a_webhook_is_tested_rotated_and_deleted(hook: Json, api: FakeApi, cli: Cli, reference: str) -> None:
    api.documents["POST", f"{PATH}/test"] = {"id": "delivery_1", "state": "pending"}
    api.documents["POST", f"{PATH}/rotate-secret"] = {"id": HOOK, "secret": "whsec_second"}
    api.documents["DELETE", PATH] = {}
    assert "delivery_1" in cli("webhooks", "test", reference).stdout
    assert "whsec_second" in cli("webhooks", "rotate-secret", reference).stdout
    assert f"deleted {HOOK}" in cli("webhooks", "delete", reference).stderr
    assert [asked.method for asked in api.asked if asked.path.startswith(PATH)] == ["POST", "POST", "DELETE"]


def test_only_given_fields_change(hook: Json, api: FakeApi, cli: Cli) -> None:
    api.documents["PATCH", PATH] = hook
    assert cli("webhooks", "update", HOOK, "--enabled", "on", "--all-events").exit_code == 0
    (asked,) = api.calls("PATCH", PATH)
    assert asked.body == {"enabled": True, "event_types": None}
    assert cli("webhooks", "update", HOOK).exit_code == 2
    assert cli("webhooks", "update", HOOK, "--event", "lease.active", "--all-events").exit_code == 2


def test_deliveries_are_listed_and_replayed(hook: Json, api: FakeApi, cli: Cli) -> None:
    delivery = {"id": "delivery_1", "event_type": "lease.failed", "state": "failed", "tries": 3, "status": 500}
    api.documents["GET", f"{PATH}/deliveries"] = {"items": [delivery], "next_cursor": None}
    api.documents["POST", f"{PATH}/deliveries/delivery_1/replay"] = delivery
    assert "500" in cli("webhooks", "deliveries", HOOK).stdout
    assert cli("webhooks", "replay", HOOK, "delivery_1").exit_code == 0


SECRET = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"


@pytest.mark.parametrize("as_json", [False, True])
def test_events_reach_a_local_program_as_messages_of_a_webhook(api: FakeApi, cli: Cli, as_json: bool) -> None:
    api.events = [an_event(n, tenant_id=TENANT_ID, lease_sequence=n) for n in (7, 8, 9)]
    options = [
        "--event",
        "lease.number7",
        "--event",
        "lease.number9",
        "--secret",
        SECRET,
        *(["--json"] if as_json else []),
    ]
    with receiving() as receiver:
        receiver.answer = lambda got: 500 if got.id == "event_9" else 204
        with cli.fork("webhooks", "listen", "--forward-to", f"{receiver.url}?a=1", *options) as process:
            assert process.stdout is not None
            lines = [process.stdout.readline(), process.stdout.readline()]
            process.send_signal(signal.SIGINT)
            _, notes = process.communicate(timeout=60)
    assert process.returncode == 130
    assert SECRET in notes
    if as_json:
        assert [(json.loads(line)["event"]["sequence"], json.loads(line)["status"]) for line in lines] == [
            (7, 204),
            (9, 500),
        ]
    else:
        assert lines[1] == "2026-06-01T11:59:00Z  lease.number9  lease_00000000000000000000000001  500\n"
    first, second = receiver.got
    assert (first.path, [first.id, second.id]) == ("/hook?a=1", ["event_7", "event_9"])
    event = api.events[0]
    ids = {name: event[name] for name in ("tenant_id", "sequence", "lease_id", "lease_sequence")}
    assert first.body == message_body(event["id"], event["type"], event["created_at"], {**ids, **event["data"]})
    sent_at = int(first.headers["webhook-timestamp"])
    signed = signed_headers([SECRET], event["id"], sent_at, first.body)
    assert first.headers["webhook-signature"] == signed["webhook-signature"]


def test_a_local_program_that_does_not_run_ends_nothing(api: FakeApi, cli: Cli) -> None:
    api.events = [an_event(7, tenant_id=TENANT_ID, lease_sequence=1)]
    with cli.fork("webhooks", "listen", "--forward-to", "http://127.0.0.1:1/hook") as process:
        assert process.stdout is not None
        assert "lease.number7" in process.stdout.readline()
        process.send_signal(signal.SIGINT)
        _, notes = process.communicate(timeout=60)
    assert "secret: whsec_" in notes


@pytest.mark.parametrize("url", ["localhost:3000", "ftp://127.0.0.1/x", "http://", "http://[::1", ""])
def test_only_an_address_of_http_is_forwarded_to(api: FakeApi, cli: Cli, url: str) -> None:
    result = cli("webhooks", "listen", "--forward-to", url)
    assert result.exit_code == 2
    assert "http://localhost:3000/hook" in result.output
    assert api.asked == []
    assert cli("webhooks", "listen", "--forward-to", "http://h", "--secret", "no secret").exit_code == 2
