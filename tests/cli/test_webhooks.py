"""`gpulease webhooks`."""

import pytest

from tests.cli.conftest import Cli
from tests.cli.fake_api import FakeApi, Json

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
