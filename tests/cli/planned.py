"""Operations and fields that the command line uses and openapi.json does not have yet. It is empty between two releases.

The form is OpenAPI's. What openapi.json has goes before what stands here.
"""

from typing import Any

_TEXT: Any = {"type": "string"}
_MAYBE: Any = {"type": ["string", "null"]}
_NUMBER: Any = {"type": "integer"}


def _object(**properties: Any) -> Any:
    return {"type": "object", "properties": properties, "additionalProperties": False}


def _page(item: Any, **more: Any) -> Any:
    return _object(items={"type": "array", "items": item}, next_cursor=_MAYBE, **more)


def _operation(status: str, response: Any, *, body: Any = None, query: tuple[str, ...] = ()) -> Any:
    content = {"content": {"application/json": {"schema": response}}} if response else {}
    return {
        "parameters": [{"name": name, "in": "query"} for name in query],
        "responses": {status: content},
        **({"requestBody": {"content": {"application/json": {"schema": body}}}} if body else {}),
    }


_ACTION = {"enum": ["notify", "refuse", "end"]}
_THRESHOLDS = {"type": "array", "items": _NUMBER}
_SCOPE = _object(kind={"enum": ["tenant", "key", "label"]}, tenant_id=_TEXT, key_id=_MAYBE, label=_MAYBE)
_LIMITS = {"amount": _TEXT, "thresholds": _THRESHOLDS, "when_exceeded": _ACTION}
_BUDGET = _object(
    id=_TEXT,
    tenant_id=_TEXT,
    scope=_SCOPE,
    period={"enum": ["day", "month", "lifetime"]},
    **_LIMITS,
    set_by={"enum": ["operator", "admin"]},
    spent=_TEXT,
    committed=_TEXT,
    available=_TEXT,
    exceeded={"type": "boolean"},
    period_started_at=_TEXT,
    resets_at=_MAYBE,
    created_at=_TEXT,
    updated_at=_TEXT,
    version=_NUMBER,
)
_NEW_BUDGET = _object(scope=_SCOPE, period={"enum": ["day", "month", "lifetime"]}, **_LIMITS)
_AMOUNTS = {
    **dict.fromkeys(("cost", "compute", "disk", "address", "list_cost", "savings"), _TEXT),
    "gpu_hours": {"type": "number"},
    "idle_gpu_hours": {"type": ["number", "null"]},
    "leases": _NUMBER,
}
_QUOTE = _object(
    id=_TEXT,
    plan={"$ref": "#/components/schemas/LeasePlan"},
    price_per_hour=_TEXT,
    total=_TEXT,
    currency=_TEXT,
    valid_until=_TEXT,
    created_at=_TEXT,
)
_FORECAST = _object(
    as_of=_TEXT,
    run_rate_per_hour=_TEXT,
    month=_object(spent=_TEXT, committed=_TEXT, forecast=_TEXT, ends_at=_TEXT),
    budgets={"type": "array", "items": _object(id=_TEXT, exhausted_at=_MAYBE)},
)

_YES = {"type": "boolean"}
_OWNER = {"tenant_id": _MAYBE, "lease_id": _MAYBE}
_COMPARED = dict.fromkeys(("estimated", "invoiced", "difference"), _TEXT)
_COUNTS = dict.fromkeys(("leases", "gpulease_only", "cloud_only", "unlisted"), _NUMBER)

PATHS: dict[str, Any] = {
    "/v1/budgets": {
        "get": _operation("200", _page(_BUDGET), query=("tenant_id", "limit", "cursor")),
        "post": _operation("201", _BUDGET, body=_NEW_BUDGET),
    },
    "/v1/budgets/{budget_id}": {
        "get": _operation("200", _BUDGET),
        "patch": _operation("200", _BUDGET, body=_object(**_LIMITS)),
        "delete": _operation("204", None),
    },
    "/v1/quotes": {"post": _operation("201", _QUOTE, body={"$ref": "#/components/schemas/NewLease"})},
    "/v1/quotes/{quote_id}": {"get": _operation("200", _QUOTE)},
    "/v1/costs": {
        "get": _operation(
            "200",
            _page(_object(start=_TEXT, group={"type": "object"}, **_AMOUNTS), total=_object(**_AMOUNTS)),
            query=("from", "to", "bucket", "group_by", "tenant_id", "limit", "cursor"),
        )
    },
    "/v1/costs/focus": {"get": _operation("200", {"type": "string"}, query=("month", "tenant_id"))},
    "/v1/ops/reconciliation": {
        "get": _operation(
            "200",
            _page(
                _object(kind=_TEXT, day=_TEXT, provider=_TEXT, resource_id=_TEXT, ours=_YES, **_OWNER, **_COMPARED),
                totals={"type": "array", "items": _object(**_OWNER, **_COMPARED, **_COUNTS)},
            ),
            query=("month", "kind", "tenant_id", "limit", "cursor"),
        )
    },
    "/v1/forecast": {"get": _operation("200", _FORECAST, query=("tenant_id",))},
}

_PLANNED = {**dict.fromkeys(("budget_id", "amount", "spent", "committed", "asked"), _TEXT), "fits": _YES}

FIELDS: dict[str, dict[str, Any]] = {
    "LeasePlan": {"budgets": {"type": "array", "items": _object(**_PLANNED)}},
    "NewLease": {
        "max_cost": _MAYBE,
        "quote_id": _MAYBE,
        "expiry_warnings_seconds": {"type": "array", "items": _NUMBER},
    },
    "LeasePatch": {"max_cost": _MAYBE, "expiry_warnings_seconds": {"type": "array", "items": _NUMBER}},
    "Lease": {
        "expiry_warnings_seconds": {},
        "max_cost": _MAYBE,
        "ends_at": _TEXT,
        "quote_id": _MAYBE,
        "key_id": _MAYBE,
    },
    "Cost": {"parts": {"type": "object"}, "covers": _TEXT},
    "NewApiKey": {"budget": _MAYBE},
}
"Name of a schema -> its further fields."
