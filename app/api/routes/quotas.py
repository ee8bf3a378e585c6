"""Quotas: the limits of a tenant's concurrent use."""

import re
from decimal import Decimal
from typing import Annotated, Any, Self

from fastapi import Request, Response
from pydantic import AfterValidator, Field, PlainValidator, WithJsonSchema, model_validator

from app.api.http.etags import UseIfMatch, tagged
from app.api.http.responses import answer
from app.api.http.routing import Operator, UseServices, Viewer
from app.api.http.routing import router as make_router
from app.api.schemas.base import Body, View
from app.api.schemas.patterns import QUOTA_RESOURCE
from app.domain.quotas import SPEND_PER_HOUR, JsonAmount, is_valid_resource, json_amount, json_limit
from app.services.quotas import tag

router = make_router("quotas")


def _resource(name: str) -> str:
    if not is_valid_resource(name):
        raise ValueError("must be gpus, gpus:<model>, leases or spend_per_hour")
    return name


Resource = Annotated[
    str,
    Field(
        max_length=64,
        pattern=QUOTA_RESOURCE.regex,
        description="`gpus`, `gpus:<model>`, `leases` or `spend_per_hour`.",
        examples=["gpus", "gpus:A100", "spend_per_hour"],
    ),
    AfterValidator(_resource),
]
_LARGEST = 99_999_999
_DECIMAL = r"^[0-9]{1,8}(\.[0-9]{1,6})?$"
_FORM = "A whole number, or USD as a decimal string for `spend_per_hour`."


def _amount(value: Any) -> int | Decimal:
    if isinstance(value, int) and not isinstance(value, bool):
        if 0 <= value <= _LARGEST:
            return value
        raise ValueError(f"must be between 0 and {_LARGEST}")
    if isinstance(value, str) and re.fullmatch(_DECIMAL, value, re.ASCII):
        return Decimal(value)
    raise ValueError('must be a whole number, or a decimal string such as "100.00" for spend_per_hour')


Amount = Annotated[
    int | Decimal,
    PlainValidator(_amount),
    WithJsonSchema(
        {"anyOf": [{"type": "integer", "minimum": 0, "maximum": _LARGEST}, {"type": "string", "pattern": _DECIMAL}]}
    ),
]
"""An amount in a request, as `json_amount` writes it in responses."""


class QuotaLimit(Body):
    """One limit."""

    resource: Resource
    limit: Annotated[Amount, Field(description=_FORM)]

    @model_validator(mode="after")
    def _form(self) -> Self:
        _check_form(self.resource, self.limit)
        return self


class QuotaLimitChange(Body):
    """One limit to set or to remove."""

    resource: Resource
    limit: Annotated[
        Amount | None,
        Field(description=f"{_FORM} Null removes the limit. Without a limit for `gpus`, no GPU is allowed."),
    ]

    @model_validator(mode="after")
    def _form(self) -> Self:
        _check_form(self.resource, self.limit)
        return self


def _check_form(resource: str, limit: int | Decimal | None) -> None:
    if resource == SPEND_PER_HOUR and isinstance(limit, int):
        raise ValueError('the limit of spend_per_hour must be a decimal string, such as "100.00"')
    if resource != SPEND_PER_HOUR and isinstance(limit, Decimal):
        raise ValueError(f"the limit of {resource} must be a whole number")


def _once_each(limits: list[Any]) -> list[Any]:
    names = [one.resource for one in limits]
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise ValueError(f"{twice[0]} is listed twice")
    return limits


class QuotaLimits(Body):
    """All limits of a tenant."""

    limits: Annotated[
        list[QuotaLimit],
        Field(max_length=100, description="A resource that is not listed loses its limit."),
        AfterValidator(_once_each),
    ]


class QuotaChanges(Body):
    """The limits to change."""

    limits: Annotated[
        list[QuotaLimitChange],
        Field(max_length=100, description="A resource that is not listed keeps its limit."),
        AfterValidator(_once_each),
    ]


class Quota(View):
    """A resource with its limit and its use. Amounts of `spend_per_hour` are USD as decimal strings, others numbers."""

    resource: Annotated[str, Field(description="`gpus`, `gpus:<model>`, `leases` or `spend_per_hour`.")]
    limit: Annotated[
        JsonAmount | None,
        Field(description="Null means unlimited, except for `gpus`: without a limit, no GPU is allowed."),
    ]
    used: Annotated[JsonAmount, Field(description="The amount that leases use or reserve.")]
    available: Annotated[JsonAmount | None, Field(description="The amount left. Null: unlimited.")]


class QuotaList(View):
    """All resources that have a limit or are in use."""

    items: list[Quota]
    next_cursor: Annotated[str | None, Field(description="Always null: there is one page.")]


@router.get("/v1/quotas", response_model=QuotaList)
async def get_own_quotas(request: Request, principal: Viewer, services: UseServices) -> Response:
    """Read the limits of the key's own tenant, and their current use."""
    return _tagged(request, await services.quotas.own(principal))


@router.get("/v1/tenants/{tenant_id}/quotas", response_model=QuotaList)
async def get_quotas(request: Request, tenant_id: str, principal: Viewer, services: UseServices) -> Response:
    """Read a tenant's limits, and their current use."""
    return _tagged(request, await services.quotas.of_tenant(principal, tenant_id))


@router.put("/v1/tenants/{tenant_id}/quotas", response_model=QuotaList)
async def set_quotas(
    tenant_id: str, body: QuotaLimits, principal: Operator, services: UseServices, if_match: UseIfMatch
) -> Response:
    """Replace all limits. A limit below the current use ends no lease; it only blocks new leases."""
    rows = await services.quotas.replace_limits(principal, tenant_id, _limits(body), if_match)
    return answer(_view(rows), headers={"ETag": tag(rows)})


@router.patch("/v1/tenants/{tenant_id}/quotas", response_model=QuotaList)
async def change_quotas(
    tenant_id: str, body: QuotaChanges, principal: Operator, services: UseServices, if_match: UseIfMatch
) -> Response:
    """Change some limits. A limit below the current use ends no lease; it only blocks new leases."""
    rows = await services.quotas.change_limits(principal, tenant_id, _limits(body), if_match)
    return answer(_view(rows), headers={"ETag": tag(rows)})


def _limits(body: QuotaLimits | QuotaChanges) -> dict[str, Decimal | None]:
    return {one.resource: None if one.limit is None else Decimal(one.limit) for one in body.limits}


def _tagged(request: Request, rows: list[dict[str, Any]]) -> Response:
    return tagged(request, _view(rows), tag(rows))


def _view(rows: list[dict[str, Any]]) -> QuotaList:
    return QuotaList(items=[Quota(**quota_json(row)) for row in rows], next_cursor=None)


def quota_json(row: dict[str, Any]) -> dict[str, Any]:
    """Converts a row of QuotaService to a Quota."""
    resource = row["resource"]
    return {
        "resource": resource,
        "limit": json_limit(resource, row["limit"]),
        "used": json_amount(resource, row["used"]),
        "available": json_limit(resource, row["available"]),
    }
