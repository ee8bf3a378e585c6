"""The description and the thing described."""

import copy
import json
from typing import Any

import jsonschema

from app.api.app import routed
from app.api.openapi.__main__ import outdated
from app.api.openapi.open_enums import answered
from app.api.openapi.shortening import shorten, unfolded
from tests.api.conftest import Caller
from tests.house.sources import ROOT


def operations(spec: dict[str, Any]) -> list[tuple[str, str, dict[str, Any]]]:
    return [(path, method, one) for path, methods in spec["paths"].items() for method, one in methods.items()]


async def test_the_committed_files_are_what_the_code_says_and_what_is_served() -> None:
    app = routed()
    async with Caller(app, None) as anybody:
        served = (await anybody.get("/openapi.json")).json()
    assert served == json.loads((ROOT / "openapi.json").read_text(encoding="utf-8"))
    assert outdated(app) == []


def test_operation_ids_are_function_names(spec: dict[str, Any]) -> None:
    ids = [one["operationId"] for _, _, one in operations(spec)]
    assert len(ids) == len(set(ids))
    assert all(name.isidentifier() and name == name.lower() and "v1" not in name for name in ids)


def test_every_operation_has_one_tag_and_documents_its_refusals(spec: dict[str, Any]) -> None:
    for path, _, one in operations(spec):
        assert len(one["tags"]) == 1
        refused = {status: answer for status, answer in one["responses"].items() if status >= "400"}
        assert "500" in refused
        if path.startswith("/v1/"):
            assert {"401", "422", "429"} <= set(refused)
            assert ("403" in refused) == ({"apiKey": []} in one["security"])
            assert all(answer["$ref"].endswith(f"/Problem{status}") for status, answer in refused.items())


def test_the_short_form_says_what_the_long_one_says() -> None:
    short = json.loads((ROOT / "openapi.json").read_text(encoding="utf-8"))
    long = unfolded(short)
    assert len(json.dumps(long)) > 1.05 * len(json.dumps(short))
    again = copy.deepcopy(long)
    shorten(again)
    assert again == short
    assert unfolded(again) == long


def test_what_starts_at_an_event_may_find_it_purged(spec: dict[str, Any]) -> None:
    starting = {
        path: sorted(one["responses"])
        for path, _, one in operations(spec)
        if "after" in {parameter["name"] for parameter in one.get("parameters", ())}
    }
    assert set(starting) == {
        "/v1/events",
        "/v1/events/stream",
        "/v1/leases/{lease_id}/events",
        "/v1/groups/{group_id}/events",
    }
    assert all("410" in statuses for statuses in starting.values())


def test_every_field_of_an_answer_is_required(spec: dict[str, Any]) -> None:
    answered = {
        answer["content"]["application/json"]["schema"].get("$ref", "").rpartition("/")[2]
        for _, _, one in operations(spec)
        for status, answer in one["responses"].items()
        if status.startswith("2") and "application/json" in answer.get("content", {})
    }
    for name in answered:
        schema = spec["components"]["schemas"][name]
        assert sorted(schema["required"]) == sorted(schema["properties"]), name


def test_enums_are_open_in_answers_and_closed_in_requests(spec: dict[str, Any]) -> None:
    schemas = spec["components"]["schemas"]
    enums = {name for name, schema in schemas.items() if "enum" in schema}
    in_answers = answered(spec)
    assert {"LeaseState", "ReasonCode", "Market"} <= enums & in_answers
    for name in in_answers - enums:
        assert not closed_enums(schemas[name], enums), name
    assert closed_enums(schemas["NewLease"], enums) == {
        "BenchmarkMode",
        "MarketPreference",
        "OnGpuFailure",
        "OnInterruption",
        "ProofMode",
        "ProviderName",
    }


def closed_enums(node: Any, enums: set[str]) -> set[str]:
    """Names of the enums below `node` beside which no other text is allowed."""
    if isinstance(node, list):
        return set[str]().union(*(closed_enums(part, enums) for part in node))
    if not isinstance(node, dict):
        return set()
    if {"type": "string"} in node.get("anyOf", []):
        return set()
    assert "enum" not in node, "an enum without a name"
    name = str(node.get("$ref", "")).rpartition("/")[2]
    return ({name} & enums).union(*(closed_enums(part, enums) for part in node.values()))


async def test_real_answers_are_as_declared(operator: Caller, alice: Caller, spec: dict[str, Any]) -> None:
    me = (await alice.get("/v1/me")).json()["key_id"]
    tenant = f"/v1/tenants/{alice.tenant_id}"
    for name, answer in {
        "Me": await alice.get("/v1/me"),
        "TenantPage": await operator.get("/v1/tenants"),
        "Tenant": await operator.patch(tenant, json={"status": "suspended"}),
        "ApiKeyPage": await alice.get(f"{tenant}/keys"),
        "ApiKeyWithSecret": await alice.post(f"/v1/keys/{me}/rotate", json={"overlap_seconds": 60}),
        "QuotaList": await alice.get("/v1/quotas"),
        "AuditPage": await alice.get("/v1/audit"),
        "ReadinessView": await alice.get("/readyz"),
        "Problem": await alice.get("/nothing"),
    }.items():
        jsonschema.validate(answer.json(), closed(spec, name))


def closed(spec: dict[str, Any], name: str) -> dict[str, Any]:
    """The schema with no field allowed beyond those declared."""
    schemas = {
        key: schema if key == "Problem" or "properties" not in schema else {**schema, "additionalProperties": False}
        for key, schema in spec["components"]["schemas"].items()
    }
    return {"$ref": f"#/components/schemas/{name}", "components": {"schemas": schemas}}
