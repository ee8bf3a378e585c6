"""Every route as openapi.json tells it, with a valid call of each. A new route without an entry here fails the tests."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from tests.api.fleet import SSH_KEY
from tests.described import document

HOST_KEY = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIOMqqnkVzrm0SdG6UOoqKLsabgH5C9okWi0dh2l9GKJl"
LEASE: dict[str, Any] = {
    "name": "mine",
    "gpu": {"model": "A10G", "count": 1, "memory_gib": 24, "interconnect": "PCIe", "vendor": "NVIDIA"},
    "instance_types": None,
    "min_vcpus": 1,
    "min_memory_gib": 1,
    "min_local_disk_gib": None,
    "market": "on_demand",
    "providers": ["aws"],
    "regions": ["us-east-1"],
    "max_price_per_hour": "9.5",
    "ttl_seconds": 1800,
    "wait_seconds": 60,
    "ssh_public_keys": [SSH_KEY],
    "ssh_keys": [],
    "startup_script": "#!/bin/sh\necho mine",
    "image": None,
    "disk_gib": 100,
    "volumes": None,
    "public_ip": True,
    "allowed_cidrs": ["203.0.113.0/24"],
    "on_interruption": "end",
    "labels": {"team": "vision"},
    "expiry_warnings_seconds": [1800, 300],
    "quote_id": None,
    "tenant_id": None,
}
VOLUME: dict[str, Any] = {
    "name": "data",
    "size_gib": 10,
    "account": "main",
    "region": "us-east-1",
    "zone": "us-east-1a",
    "labels": {"team": "vision"},
    "tenant_id": None,
}
SIZING: dict[str, Any] = {
    "task": "inference",
    "model": None,
    "config": None,
    "parameters": "7b",
    "precision": "bf16",
    "context": 4096,
    "concurrency": 1,
    "batch": 1,
    "optimizer": "adamw",
    "sharding": None,
    "kv_precision": "fp8",
    "mixed_precision": True,
    "gradient_checkpointing": True,
    "lora_rank": 16,
    "market": "on_demand",
    "ttl_seconds": 3600,
    "tenant_id": None,
}
HOOK = "https://93.184.216.34/hook"
BUDGET: dict[str, Any] = {"scope": {"kind": "tenant"}, "period": "month", "amount": "500.00"}
NOTE = {"note": "a drill"}
GROUP: dict[str, Any] = {
    "name": "cluster",
    "size": 2,
    "min_size": 1,
    "lease": {**LEASE, "name": None, "startup_script": None},
    "placement": "same_zone",
    "interconnect": "preferred",
    "form_seconds": 600,
    "on_member_loss": "keep",
    "tenant_id": None,
}
BODIES: Mapping[str, Any] = {
    "create_tenant": {"name": "lab", "max_ttl_seconds": 3600, "max_total_seconds": 7200},
    "update_tenant": {
        "name": "lab-2",
        "max_ttl_seconds": 7200,
        "max_total_seconds": 86_400,
        "status": "active",
        "end_leases": False,
    },
    "create_key": {"name": "ci", "role": "viewer", "expires_at": "2999-01-01T00:00:00Z", "budget": "5.00"},
    "rotate_key": {"overlap_seconds": 60},
    "create_ssh_key": {"name": "desk", "public_key": SSH_KEY, "default": True, "tenant_id": None},
    "update_ssh_key": {"name": "desk-2", "default": False},
    "create_volume": VOLUME,
    "set_quotas": {
        "limits": [{"resource": name, "limit": 100} for name in ("gpus", "gpus:A100", "leases")]
        + [{"resource": "spend_per_hour", "limit": "1000.00"}]
    },
    "change_quotas": {"limits": [{"resource": "gpus:A100", "limit": None}]},
    "create_budget": {
        "scope": {"kind": "tenant", "tenant_id": None, "key_id": None, "label": None},
        "period": "month",
        "amount": "100.00",
        "thresholds": [50, 80],
        "when_exceeded": "refuse",
    },
    "update_budget": {"amount": "90.00", "thresholds": [80], "when_exceeded": "notify"},
    "plan_lease": LEASE,
    "create_quote": LEASE,
    "create_sizing": SIZING,
    "release_leases": {"ids": None, "label": ["team:nobody"], "all": False, "dry_run": True, "tenant_id": None},
    "create_lease": LEASE,
    "create_group": GROUP,
    "plan_group": {**GROUP, "name": "planned"},
    "resize_group": {"size": 1},
    "update_lease": {"name": "renamed", "labels": {"team": "speech"}, "expiry_warnings_seconds": [600]},
    "extend_lease": {"extend_by_seconds": 60},
    "extend_group": {"extend_by_seconds": 60},
    "create_webhook": {
        "url": HOOK,
        "description": "ours",
        "event_types": ["lease.active"],
        "format": "slack",
        "tenant_id": None,
    },
    "update_webhook": {
        "url": HOOK,
        "description": "ours",
        "event_types": ["lease.failed"],
        "format": "standard",
        "enabled": True,
    },
    "keep_lease": {"seconds": 600},
    "set_idle_floor": {"after_seconds": 3600, "action": "notify", "max_keep_seconds": 600},
    "cordon_account": {
        "cordoned": True,
        **NOTE,
        "offerings": {"region": "us-east-1", "zone": "us-east-1a", "instance_type": "g5.xlarge", "market": "spot"},
    },
    "set_launch_stop": {"stopped": True, **NOTE},
    "report_host_keys": {"keys": [HOST_KEY]},
    "report_gpu_samples": {"version": 1, "agent": "1.0", "boot_id": "b", "samples": [{"at": 1790000000.0, "gpus": []}]},
    "report_group_check": {"nodes": 2, "mesh": "ok", "unreachable": [], "all_reduce": "ok", "all_reduce_gbps": 12.5},
    "report_proof": {"version": 1, "agent": "1.0", "at": 1790000000.0, "gpus": []},
}
"""A body with every field, by operation id."""

GIVEN_UP = "UPDATE webhook_delivery SET state = 'given_up', next_try_at = NULL, ended_at = now()"
"""So that another test may be sent."""


@dataclass(frozen=True)
class Operation:
    """One method of one path. `role` None: no key is needed."""

    id: str
    method: str
    path: str
    role: str | None
    spec: Mapping[str, Any]

    @property
    def of_agent(self) -> bool:
        """Whether the agent of a VM calls it. Its body is no form of ours: see tests/api/test_agent_proofs.py."""
        return self.spec.get("security") == [{"agentToken": []}]

    def names(self, where: str) -> list[str]:
        """Parameters of the path, the query or the header."""
        return [one["name"] for one in self.spec.get("parameters", ()) if one["in"] == where]

    def page(self, limit: int) -> dict[str, int | str]:
        """The query for one page. Empty where the operation has no pages and needs no ids."""
        given: dict[str, int | str] = {"limit": limit} if "limit" in self.names("query") else {}
        needs_ids = any(one["name"] == "ids" and one.get("required") for one in self.spec.get("parameters", ()))
        return {**given, "ids": "lease_01h455vb4pex5vsknk084sn02q"} if needs_ids else given

    @property
    def body(self) -> Any:
        """A valid body, None where none is taken. Raises KeyError for a route that is not described above."""
        return BODIES[self.id] if "requestBody" in self.spec else None

    def url(self, ids: Mapping[str, str]) -> str:
        """The path with its ids filled in. Raises KeyError for an id that nobody gave."""
        return self.path.format(**{name: ids[name] for name in self.names("path")})

    def success(self) -> tuple[int, str | None]:
        """The status of a call that goes well, and the schema of its answer's body if that is JSON."""
        (status,) = [status for status in self.spec["responses"] if status.startswith("2")]
        content = self.spec["responses"][status].get("content", {}).get("application/json", {})
        schema = content.get("schema", {}).get("$ref")
        return int(status), schema and schema.rpartition("/")[2]


def _operations() -> Iterator[Operation]:
    for path, methods in document()["paths"].items():
        for method, spec in methods.items():
            yield Operation(spec["operationId"], method.upper(), path, spec.get("x-role"), spec)


EVERY_OPERATION = tuple(_operations())
STREAMS = tuple(one for one in EVERY_OPERATION if "text/event-stream" in str(one.spec["responses"].get("200")))
"""What never ends by itself. `test_streams.py` asks these, one by one."""
OPERATIONS = tuple(one for one in EVERY_OPERATION if one not in STREAMS)
WITH_BODY = tuple(one for one in OPERATIONS if "requestBody" in one.spec and not one.of_agent)


def closed() -> dict[str, Any]:
    """The schemas with no field allowed beyond those declared, except in problems, whose codes add members."""
    schemas: dict[str, Any] = {}
    for name, schema in document()["components"]["schemas"].items():
        shut = name != "Problem" and "properties" in schema
        schemas[name] = {**schema, "additionalProperties": False} if shut else schema
    return schemas
