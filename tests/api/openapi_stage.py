"""A small installation with something of everything, to which the examples of openapi.json are sent."""

import time
from typing import Any

import httpx

from app.db.core.ids import new_id
from tests.api.conftest import Caller
from tests.api.fleet import CONNECTION, SSH_KEY, Fleet
from tests.api.test_ops import orphan
from tests.api.test_reconciliation import IMPORT, LINE, USE

LEASE: dict[str, Any] = {"name": "train-llama", "gpu": {"model": "A10G"}, "ttl_seconds": 14_400}
INSTANCE_ID = "i-0abc1234def567890"
BUDGET: dict[str, Any] = {"scope": {"kind": "label", "label": "team:vision"}, "period": "month", "amount": "400.00"}
HOOK = "https://example.com/hooks/gpulease"
GROUP: dict[str, Any] = {
    "name": "train-llama-nodes",
    "size": 1,
    "lease": {"gpu": {"model": "A10G"}, "ttl_seconds": 14_400},
    "placement": "same_zone",
}
FORMED = """
    UPDATE lease_group SET state = 'active', pool_started_at = now(), formed_at = now(), pool = '{"account": "main",
        "region": "us-east-1", "zone": "us-east-1a", "instance_type": "g5.xlarge", "market": "on_demand"}' WHERE id = %s
"""
ROOM = """UPDATE quota SET "limit" = 20 WHERE resource LIKE 'gpus%%'"""
"""Other examples have set limits that leave no room for a group."""
LAST = (
    *(
        "delete_webhook",
        "delete_budget",
        "delete_ssh_key",
        "delete_volume",
        "delete_idle_floor",
        "release_group",
        "release_lease",
        "release_leases",
        "revoke_key",
        "update_tenant",
    ),
    *("set_launch_stop", "cordon_account"),
)
"""What they change would make other examples fail."""
CHECK = {
    "subject": "right",
    "name": "ec2:RunInstances",
    "result": "passed",
    "detail": "allowed",
    "fix": None,
    "region": "us-east-1",
}
BEFORE = """
    UPDATE lease SET created_at = created_at - interval '65 minutes', wait_until = wait_until - interval '65 minutes',
        expires_at = expires_at - interval '65 minutes' WHERE id = %s
"""
"""The lease is older than the VM that `activate` gives it, which has run for an hour."""
SENT = "UPDATE webhook_delivery SET state = 'given_up', next_try_at = NULL, ended_at = now()"
"""A test message can be sent, or a delivery repeated, only when none is pending."""

SAMPLES = """
    INSERT INTO gpu_sample (lease_id, tenant_id, at, idle, gpu_percent, memory_percent, power_w, temperature_c, sm_clock_mhz,
        cpu_percent, host_memory_percent, disk_percent, uuids, gpu_values)
    SELECT id, tenant_id, at, false, 87, 71, 212, 61, 1710, 22, 31, 44, ARRAY['GPU-5a1c9b0e-7d2f-4c7e-9f3a-2b8d6e4f1a03'],
        ARRAY[[87], [71], [61], [212]]
    FROM lease, generate_series(now() - interval '24 hours', now() + interval '1 minute', interval '1 minute') at WHERE id = %s
"""
NEWEST_SAMPLE = """
    INSERT INTO gpu_latest (lease_id, tenant_id, attempt_id, sampled_at, received_at, gpu_percent, memory_percent, gpus,
        gpu_percents, xids, sample, metric_labels)
    SELECT l.id, l.tenant_id, a.id, now(), now(), 87, 71, 1, ARRAY[87], '[]', '{"gpus": [], "driver_gpus": null, "errors": [], "cpu_percent": 22, "memory_percent": 31, "disk_percent": 44}',
        jsonb_build_object('name', l.name, 'name_since', now(), 'uuids', '[]'::jsonb, 'uuids_since', now(), 'boot_id', NULL)
    FROM lease l JOIN attempt a ON a.lease_id = l.id WHERE l.id = %s
"""


IDLE = """
    UPDATE lease SET idle_evidence = '{"after_seconds": 3600, "action": "notify", "idle_percent": 5, "samples": 60,
        "since": "2026-12-01T10:30:00Z", "until": "2026-12-01T11:29:00Z", "gpus": ["GPU-5f0c1d5a"],
        "at": ["2026-12-01T11:28:00Z", "2026-12-01T11:29:00Z"], "percentages": [[0], [1]]}' WHERE id = %s
"""
FLOOR = """UPDATE tenant SET idle_floor = '{"after_seconds": 7200, "action": "end", "max_keep_seconds": 28800}' WHERE id = %s"""


class Stage:
    """`ids`: the real value of each path parameter, by its name."""

    def __init__(self, operator: Caller, alice: Caller, fleet: Fleet) -> None:
        self._operator = operator
        self._alice = alice
        self._fleet = fleet
        self.ids: dict[str, str] = {}
        self._member_id = ""
        self._examples: dict[str, str] = {}

    async def furnish(self, examples: dict[str, str]) -> None:
        """Makes an active lease, a key, an SSH key, a webhook with a delivery, an orphan, a checked account."""
        fleet, alice = self._fleet, self._alice
        # tests do not reach the internet: every host leads to a public address
        alice.app.state.services.webhooks._lookup = lambda *_: ["93.184.216.34"]
        fleet.run("UPDATE account SET config = %s", '{"images": {"pytorch": "ami-1"}}')
        check = "INSERT INTO account_check (account, checked_at, failed, checks) VALUES ('main', now(), 0, %s)"
        fleet.run(check, f"[{httpx.Request('POST', '/', json=CHECK).content.decode()}]")
        lease = await self._post("/v1/leases", LEASE)
        fleet.activate(lease["id"])
        fleet.run(BEFORE, lease["id"])
        fleet.run(IDLE, lease["id"])
        fleet.run(FLOOR, alice.tenant_id)
        console = "INSERT INTO lease_console (lease_id, tenant_id, n, text) VALUES (%s, %s, 1, %s)"
        fleet.run(console, lease["id"], alice.tenant_id, "cloud-init finished")
        group = await self._post("/v1/groups", GROUP)
        (member,) = group["members"]
        fleet.activate(member["lease_id"])
        fleet.set_lease(member["lease_id"], connection={**CONNECTION, "private_ip": "10.0.0.4"})
        fleet.run(FORMED, group["id"])
        key = await self._post(f"/v1/tenants/{alice.tenant_id}/keys", {"name": "ci", "role": "member"})
        ssh_key = await self._post("/v1/ssh-keys", {"name": "workstation", "public_key": SSH_KEY})
        budget = await self._post("/v1/budgets", BUDGET)
        volume_id = fleet.volume(alice.tenant_id, "checkpoints", kind="gp3", key_id=key["id"])
        hook = await self._post("/v1/webhooks", {"url": HOOK})
        delivery = await self._post(f"/v1/webhooks/{hook['id']}/test", None)
        fleet.run(SENT)
        orphan(fleet, INSTANCE_ID)
        (orphan_row,) = fleet.run("SELECT id FROM orphan")
        fleet.run(IMPORT)
        fleet.run(USE, new_id("attempt"), alice.tenant_id, lease["id"], INSTANCE_ID)
        fleet.run(LINE, "2026-10-05", INSTANCE_ID, "1.155", False)
        fleet.run(LINE, "2026-10-07", "i-0fedcba9876543210", "24.14", True)
        fleet.number_events()
        made = {"tenant_id": alice.tenant_id, "lease_id": lease["id"], "key_id": key["id"]}
        quote = await self._post("/v1/quotes", {**LEASE, "name": "evaluation"})
        made |= {"ssh_key_id": ssh_key["id"], "orphan_id": orphan_row["id"], "quote_id": quote["id"]}
        made |= {"volume_id": volume_id, "budget_id": budget["id"], "group_id": group["id"]}
        self._member_id = member["lease_id"]
        self._examples = examples
        fleet.run(SAMPLES, lease["id"])
        fleet.run(NEWEST_SAMPLE, lease["id"])
        self.ids = {**examples, **made, "webhook_id": hook["id"], "delivery_id": delivery["id"]}

    async def send(self, method: str, path: str, operation: dict[str, Any], example: dict[str, Any]) -> httpx.Response:
        """Sends the example as it stands, except that path parameters name what exists here."""
        url = path.format(**{one["name"]: self.ids[one["name"]] for one in _path_parameters(operation)})
        caller, headers = self._caller(operation), {}
        if operation["operationId"] == "report_host_keys":
            headers = {"Authorization": f"Bearer {self._fleet.give_token(self.ids['lease_id'])}"}
        body: Any = example.get("request")
        if operation.get("tags") == ["agent"]:
            headers = {"Authorization": f"Bearer {self._fleet.give_agent_token(self.ids['lease_id'])}"}
        if operation["operationId"] in {"create_group", "plan_group"}:
            self._fleet.run(ROOM)
        if operation["operationId"] in {"get_own_group_hosts", "report_group_check"}:
            headers = {"Authorization": f"Bearer {self._fleet.give_agent_token(self._member_id)}"}
        if operation["operationId"] == "report_gpu_samples":
            body = {**body, "samples": [{**one, "at": time.time()} for one in body["samples"]]}
            self._fleet.run("UPDATE gpu_latest SET received_at = received_at - interval '1 minute'")
        real = {value: self.ids[name] for name, value in self._examples.items()}
        query = {name: real.get(str(value), value) for name, value in example.get("query", {}).items()}
        response = await caller.request(method, url, params=query, json=body, headers=headers)
        self._fleet.run(SENT)
        return response

    def _caller(self, operation: dict[str, Any]) -> Caller:
        return self._operator if operation.get("x-role") in {"operator", "deadman"} else self._alice

    async def _post(self, path: str, body: Any) -> Any:
        response = await self._alice.post(path, json=body)
        assert response.is_success, response.text
        return response.json()


def _path_parameters(operation: dict[str, Any]) -> list[dict[str, Any]]:
    return [one for one in operation.get("parameters", ()) if one["in"] == "path"]
