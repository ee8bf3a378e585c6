"""Bodies and views about quotas."""

import re
from decimal import Decimal
from typing import Annotated, Any, Self

from pydantic import AfterValidator, Field, PlainValidator, WithJsonSchema, model_validator

from app.api.schemas.base import Body, View
from app.api.schemas.patterns import QUOTA_RESOURCE
from app.domain.quotas import SPEND_PER_HOUR, JsonAmount, is_valid_resource


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
    names = [limit.resource for limit in limits]
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
