"""No request that openapi.json describes, and none that breaks the description, gets an answer that it does not declare."""

import os
from collections.abc import Iterator
from typing import Any

import httpx
import pytest

from app.api.routes import event_stream
from app.prerequisites import ensure_operator_key
from cloudsim.testing import NO_TLS
from tests.api.conftest import MakeSettings
from tests.api.fleet import SSH_KEY, Fleet
from tests.api.test_ops import orphan
from tests.security.conftest import UNLIMITED
from tests.security.fuzzing import PATIENCE, Fuzzer, Sender, StreamFuzzer, operations, serving
from tests.security.routes import BUDGET, HOOK, STREAMS

EXAMPLES = int(os.environ.get("FUZZ_EXAMPLES", "5"))
"""For each operation, always the same. `test_answers.py` has a good call of each; `make fuzz` asks for many more,
differently every time."""
IN_SUITE = "FUZZ_EXAMPLES" not in os.environ

WISH: dict[str, Any] = {"gpu": {"model": "A10G"}, "ttl_seconds": 3600, "startup_script": "#!/bin/true"}


class Setting:
    """Two tenants with leases, keys and events, and whoever may ask."""

    def __init__(self, url: str, operator_key: str, fleet: Fleet) -> None:
        self.url = url
        self._operator_key = operator_key
        self._fleet = fleet
        self.senders = [Sender("operator", operator_key), Sender("nobody", "f" * 64)]
        self.ids: dict[str, list[str]] = {
            "lease_id": ["lease_01h455vb4pex5vsknk084sn02q"],
            "tenant_id": [],
            "key_id": [],
            "budget_id": [],
            "group_id": [],
            "webhook_id": [],
            "ssh_key_id": [],
            "volume_id": [],
            "quote_id": [],
            "delivery_id": [],
            "account": ["main"],
            "name": ["main"],
            "region": ["us-east-1"],
            "orphan_id": [],
        }

    def tenant(self, name: str) -> None:
        tenant_id = self._ask("POST", "/v1/tenants", self._operator_key, {"name": name})["id"]
        limits = [{"resource": resource, "limit": 8} for resource in ("gpus", "leases")]
        self._ask("PUT", f"/v1/tenants/{tenant_id}/quotas", self._operator_key, {"limits": limits})
        for role in ("admin", "viewer"):
            key = self._key(tenant_id, role)
            self.senders.append(Sender(role, key["secret"]))
        self.ids["key_id"].append(self._key(tenant_id, "member")["id"])
        self.ids["tenant_id"].append(tenant_id)
        hook = self._ask("POST", "/v1/webhooks", self.senders[-2].key, {"url": HOOK})["id"]
        self.ids["webhook_id"].append(hook)
        budget = {**BUDGET, "amount": "100000.00"}
        self.ids["budget_id"].append(self._ask("POST", "/v1/budgets", self.senders[-2].key, budget)["id"])
        group = {"name": "two", "size": 2, "lease": WISH}
        self.ids["group_id"].append(self._ask("POST", "/v1/groups", self.senders[-2].key, group)["id"])
        self.ids["delivery_id"].append(self._ask("POST", f"/v1/webhooks/{hook}/test", self.senders[-2].key, None)["id"])
        ssh_key = {"name": name, "public_key": SSH_KEY}
        self.ids["ssh_key_id"].append(self._ask("POST", "/v1/ssh-keys", self.senders[-2].key, ssh_key)["id"])
        self.ids["volume_id"].append(self._fleet.volume(tenant_id))
        self.ids["quote_id"].append(self._ask("POST", "/v1/quotes", self.senders[-2].key, WISH)["id"])
        for state in ("queued", "active"):
            lease_id = self._ask("POST", "/v1/leases", self.senders[-2].key, WISH)["id"]
            self.ids["lease_id"].append(lease_id)
            if state == "active":
                self._fleet.activate(lease_id)

    def _key(self, tenant_id: str, role: str) -> Any:
        return self._ask("POST", f"/v1/tenants/{tenant_id}/keys", self._operator_key, {"name": role, "role": role})

    def _ask(self, method: str, path: str, key: str, body: Any) -> Any:
        headers = {"Authorization": f"Bearer {key}"}
        answer = httpx.request(
            method, self.url + path, json=body, headers=headers, timeout=PATIENCE, trust_env=False, verify=NO_TLS
        )
        assert answer.is_success, answer.text
        return answer.json()


@pytest.fixture
def setting(make_settings: MakeSettings, fleet: Fleet, database_url: str) -> Iterator[Setting]:
    with serving(make_settings(rate_limit=UNLIMITED, write_rate_limit=UNLIMITED, login_rate_limit=UNLIMITED)) as url:
        setting = Setting(url, ensure_operator_key(database_url, None), fleet)
        for name in ("alice", "bob"):
            setting.tenant(name)
        for instance_id in ("i-1", "i-2"):
            orphan(fleet, instance_id)
        setting.ids["orphan_id"] += [row["id"] for row in fleet.run("SELECT id FROM orphan")]
        fleet.number_events()
        yield setting


LAST = (
    *(
        "delete_webhook",
        "delete_ssh_key",
        "delete_volume",
        "release_lease",
        "release_leases",
        "revoke_key",
        "update_tenant",
    ),
    *("set_launch_stop", "cordon_account"),
)
"""What they change would leave the others little to do."""


@pytest.mark.timeout(0 if not IN_SUITE else 300)
def test_every_response_is_as_declared_and_valid_requests_are_accepted(setting: Setting) -> None:
    fuzzer = Fuzzer(setting.url, setting.senders, setting.ids)
    for operation in sorted(operations(), key=lambda one: str(one.definition.raw["operationId"]) in LAST):
        fuzzer.run(operation, EXAMPLES, derandomize=IN_SUITE)
    fuzzer.close()
    seen = {status for counts in fuzzer.statuses.values() for status in counts}
    assert {200, 401, 403, 404, 422} <= seen
    assert min(sum(counts.values()) for counts in fuzzer.statuses.values()) >= min(EXAMPLES, 2)


def test_every_message_of_a_stream_is_as_declared(setting: Setting, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(event_stream, "HEARTBEAT_SECONDS", 0.2)
    fuzzer = StreamFuzzer(setting.url, setting.senders, setting.ids)
    for operation in operations(STREAMS):
        fuzzer.run(operation, EXAMPLES * 3, derandomize=IN_SUITE)
    fuzzer.close()
    assert fuzzer.messages > 0
    assert {200, 422} <= {status for counts in fuzzer.statuses.values() for status in counts}
