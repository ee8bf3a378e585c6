"""Each operation of the API has a bound of the work that one request makes: what one tenant asks delays another by little.

docs/decisions/0089 says how requests take turns. An operation is bounded by what this file reads from its source: a page has a
largest size, a costly operation runs once at a time for a tenant, a token counts for one VM. Any other one is in the table.
"""

import re
from typing import Any

from tests.described import document
from tests.house.sources import ROOT

LARGEST_PAGE = 200
ROW = "one row, and what the tenant's limits allow to hang on it"
LIMITED = "docs/limits.md limits the rows"
CATALOGUE = "the catalogue, which tenants do not make"
OPERATOR = "operators alone, and rows of the installation"
MEMBERS = "256 members. A release is never dearer, so that a tenant can always end what it pays for"
PROCESS = "no row of a tenant"

BOUNDED = {
    **dict.fromkeys(
        (
            *("create_tenant", "get_tenant", "update_tenant", "create_key", "revoke_key", "rotate_key", "get_me"),
            *("create_volume", "get_volume", "delete_volume"),
            *("create_ssh_key", "get_ssh_key", "update_ssh_key", "delete_ssh_key", "create_budget", "get_budget"),
            *(
                "update_budget",
                "delete_budget",
                "get_quote",
                "create_lease",
                "get_lease",
                "update_lease",
                "release_lease",
            ),
            *("extend_lease", "reboot_lease", "list_lease_console_output", "keep_lease", "get_lease_idle_evidence"),
            *(
                "get_idle_floor",
                "delete_idle_floor",
                "create_webhook",
                "get_webhook",
                "update_webhook",
                "delete_webhook",
            ),
            *("rotate_webhook_secret", "send_test_event", "replay_webhook_delivery", "get_group", "list_group_hosts"),
        ),
        ROW,
    ),
    **dict.fromkeys(("get_own_quotas", "get_quotas", "set_quotas", "change_quotas", "get_summary"), LIMITED),
    **dict.fromkeys(("list_gpu_models", "list_regions", "list_images", "list_reservations"), CATALOGUE),
    **dict.fromkeys(("release_leases", "release_group"), MEMBERS),
    **dict.fromkeys(
        (
            *(
                "set_idle_floor",
                "get_ops_summary",
                "end_orphan",
                "adopt_orphans",
                "set_launch_stop",
                "record_deadman_heartbeat",
            ),
            *("resume_installation", "list_accounts", "cordon_account", "get_account_checks", "request_account_checks"),
        ),
        OPERATOR,
    ),
    **dict.fromkeys(("get_liveness", "get_readiness", "get_metrics"), PROCESS),
    "stream_events": "one query for all streams: docs/decisions/0026",
}
"""Operations by their id, with what bounds one request."""


def _operations() -> dict[str, dict[str, Any]]:
    methods = ("get", "post", "put", "patch", "delete")
    return {
        operation["operationId"]: operation
        for path in document()["paths"].values()
        for method, operation in path.items()
        if method in methods
    }


def _costly() -> set[str]:
    sources = (ROOT / "app" / "api" / "routes").glob("*.py")
    pattern = re.compile(r"^@costly\n(?:@.*\n)*async def (\w+)", re.MULTILINE)
    return {name for source in sources for name in pattern.findall(source.read_text(encoding="utf-8"))}


def _is_page(operation: dict[str, Any]) -> bool:
    limits = [one["schema"] for one in operation.get("parameters", ()) if one["name"] == "limit"]
    return any(schema.get("maximum", LARGEST_PAGE + 1) <= LARGEST_PAGE for schema in limits)


def _is_of_a_vm(operation: dict[str, Any]) -> bool:
    return any(name in ("agentToken", "oneTimeToken") for scheme in operation.get("security", ()) for name in scheme)


def test_each_operation_has_a_bound_and_one_reason_for_it() -> None:
    operations, costly = _operations(), _costly()
    assert costly <= set(operations)
    read = {
        name
        for name, operation in operations.items()
        if name in costly or _is_page(operation) or _is_of_a_vm(operation)
    }
    assert sorted(operations.keys() - read) == sorted(BOUNDED)


def test_what_reads_the_whole_catalogue_is_costly() -> None:
    """Whatever the size of its page."""
    assert {"list_offerings", "plan_lease", "create_quote"} <= _costly()


def test_changes_that_lock_each_member_of_a_group_are_costly() -> None:
    assert {"create_group", "plan_group", "resize_group", "extend_group"} <= _costly()
