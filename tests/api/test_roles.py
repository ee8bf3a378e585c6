"""Which role may call what."""

import pytest
from fastapi.routing import APIRoute

from app.api.app import routed
from app.api.http.routing import AgentRoute, OneTimeRoute, SecuredRoute, TokenRoute
from app.services.principal import Role
from tests.api.conftest import Caller

DASHBOARD = {"/dashboard", "/dashboard/", "/dashboard/{path:path}"}
DOCS = {"/openapi.json", "/docs", "/docs/errors", "/docs/assets/{path:path}"}
OPEN = {"/livez", "/readyz", "/metrics", "/", "/v1/agent/program", "/v1/agent/all-reduce", *DOCS, *DASHBOARD}

LEAST_ROLE = {
    "get_me": "viewer",
    "create_tenant": "operator",
    "list_tenants": "operator",
    "get_tenant": "viewer",
    "update_tenant": "operator",
    "create_key": "admin",
    "list_keys": "admin",
    "revoke_key": "admin",
    "rotate_key": "admin",
    "create_volume": "member",
    "list_volumes": "viewer",
    "get_volume": "viewer",
    "delete_volume": "member",
    "create_ssh_key": "member",
    "list_ssh_keys": "viewer",
    "get_ssh_key": "viewer",
    "update_ssh_key": "member",
    "delete_ssh_key": "member",
    "reboot_lease": "member",
    "list_lease_console_output": "member",
    "get_own_quotas": "viewer",
    "get_quotas": "viewer",
    "set_quotas": "operator",
    "change_quotas": "operator",
    "create_group": "member",
    "plan_group": "member",
    "list_groups": "viewer",
    "get_group": "viewer",
    "resize_group": "member",
    "extend_group": "member",
    "release_group": "member",
    "list_group_events": "viewer",
    "list_group_hosts": "viewer",
    "create_budget": "admin",
    "list_budgets": "viewer",
    "get_budget": "viewer",
    "update_budget": "admin",
    "delete_budget": "admin",
    "release_leases": "member",
    "create_quote": "member",
    "create_sizing": "viewer",
    "get_quote": "member",
    "list_audit": "admin",
    "create_webhook": "admin",
    "list_webhooks": "admin",
    "get_webhook": "admin",
    "update_webhook": "admin",
    "delete_webhook": "admin",
    "rotate_webhook_secret": "admin",
    "send_test_event": "admin",
    "list_webhook_deliveries": "admin",
    "replay_webhook_delivery": "admin",
    "record_deadman_heartbeat": "deadman",
}

ROUTES = [route for route in routed().routes if isinstance(route, APIRoute)]
SECURED = [route for route in ROUTES if isinstance(route, SecuredRoute)]
RANK = [Role.VIEWER, Role.MEMBER, Role.ADMIN, Role.OPERATOR, Role.DEADMAN]
"""The last one is no role of a tenant: what needs it is refused to all of a tenant's."""


def test_only_the_health_routes_and_the_description_need_no_key() -> None:
    assert {route.path for route in ROUTES if not isinstance(route, SecuredRoute | TokenRoute)} <= OPEN


def test_only_an_agent_comes_with_the_token_of_an_attempt() -> None:
    paths = {route.path for route in ROUTES if isinstance(route, AgentRoute)}
    assert paths >= {"/v1/agent/proof", "/v1/group-hosts"}
    assert all(path.startswith("/v1/agent/") for path in paths - {"/v1/group-hosts"})


def test_only_a_vm_telling_its_host_keys_comes_with_a_token_that_works_once() -> None:
    assert {route.path for route in ROUTES if isinstance(route, OneTimeRoute)} == {"/v1/host-keys"}


def test_the_roles_are_those_of_the_contract() -> None:
    declared = {route.name: str(route.required_role) for route in SECURED}
    assert declared | LEAST_ROLE == declared


@pytest.mark.parametrize("role", ["viewer", "member", "admin"])
async def test_a_lesser_role_is_refused_whatever_the_id(alice: Caller, role: str) -> None:
    caller = await alice.member(role)
    for route in SECURED:
        if RANK.index(Role(role)) >= RANK.index(route.required_role):
            continue
        path = route.path
        for name in route.param_convertors:
            path = path.replace("{" + name + "}", "nonsense")
        for method in route.methods or ():
            refused = await caller.request(method, path, json={})
            assert (refused.status_code, refused.json()["code"]) == (403, "forbidden"), (method, path)
