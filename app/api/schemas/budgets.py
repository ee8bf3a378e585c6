"""Budgets in requests and responses."""

from collections.abc import Mapping
from decimal import Decimal
from typing import Annotated, Any

from pydantic import AfterValidator, ConfigDict, Field

from app.api.schemas.base import ActingTenant, Body, DecimalText, Moment, Money, Page, Text, View
from app.api.schemas.field_rules import never_null
from app.domain import labels
from app.domain.budgets import (
    DEFAULT_THRESHOLDS,
    HIGHEST_THRESHOLD,
    MOST_THRESHOLDS,
    BudgetKind,
    Period,
    Scope,
    SetBy,
    WhenExceeded,
)
from app.services.errors import FieldError, InvalidRequest
from app.services.money import budgets as service


def _label(text: str) -> str:
    key, colon, value = text.partition(":")
    if not colon or not labels.is_key(key) or not labels.is_value(value):
        raise ValueError("must be a label as key:value, such as team:vision")
    return text


def _ascending(thresholds: list[int]) -> list[int]:
    if len(set(thresholds)) < len(thresholds):
        raise ValueError("must not list a threshold twice")
    return sorted(thresholds)


def _not_null(value: Any) -> Any:
    if value is None:
        raise ValueError("must not be null")
    return value


Thresholds = Annotated[
    list[Annotated[int, Field(ge=1, le=HIGHEST_THRESHOLD)]],
    Field(
        max_length=MOST_THRESHOLDS,
        description="Percent of the amount. When the spending reaches one, the tenant gets the event `budget.threshold`.",
        examples=[[50, 80, 100]],
    ),
    AfterValidator(_ascending),
]
Exceeded = Annotated[
    WhenExceeded,
    Field(
        strict=False,
        description=(
            "`notify`: only events. `refuse`: leases that do not fit are refused. `end`: as `refuse`, and while the "
            "commitment exceeds the amount, leases end, the most expensive ones first."
        ),
    ),
]
Amount = Annotated[DecimalText, Field(description="USD for one period, as a decimal string.", examples=["100.00"])]


class NewBudgetScope(Body):
    """The leases that a budget counts."""

    kind: Annotated[
        BudgetKind,
        Field(
            strict=False, description="`tenant`: all leases. `key`: those of an API key. `label`: those with a label."
        ),
    ]
    tenant_id: ActingTenant = None
    key_id: Annotated[
        Text | None, Field(max_length=40, description="For `key`, and only then: the API key that created the leases.")
    ] = None
    label: Annotated[
        Text | None,
        Field(
            max_length=400, description="For `label`, and only then: a label as `key:value`.", examples=["team:vision"]
        ),
        AfterValidator(lambda text: None if text is None else _label(text)),
    ] = None


class NewBudget(Body):
    """A budget to create. It counts what its present period has cost so far."""

    scope: NewBudgetScope
    period: Annotated[
        Period,
        Field(strict=False, description="`day` and `month` are those of UTC. `lifetime` begins now and does not end."),
    ]
    amount: Amount
    thresholds: Thresholds = Field(default_factory=lambda: list(DEFAULT_THRESHOLDS))
    when_exceeded: Exceeded = WhenExceeded.REFUSE


class BudgetPatch(Body):
    """Absent fields stay unchanged. An amount below what is committed is accepted."""

    model_config = ConfigDict(json_schema_extra=never_null("amount", "thresholds", "when_exceeded"))

    amount: Annotated[Amount | None, AfterValidator(_not_null)] = None
    thresholds: Annotated[Thresholds | None, AfterValidator(_not_null)] = None
    when_exceeded: Annotated[Exceeded | None, AfterValidator(_not_null)] = None


class BudgetScope(View):
    """The leases that a budget counts."""

    kind: BudgetKind
    tenant_id: str
    key_id: Annotated[str | None, Field(description="The API key that created the leases. Null: any.")]
    label: Annotated[str | None, Field(description="A label of the leases, as `key:value`. Null: any.")]


class Budget(View):
    """An amount that leases may cost in a period, and what they have cost."""

    id: str
    tenant_id: str
    scope: BudgetScope
    period: Period
    amount: Annotated[Money, Field(description="USD for one period.")]
    thresholds: Annotated[list[int], Field(description="Percent of the amount at which the tenant gets an event.")]
    when_exceeded: WhenExceeded
    set_by: Annotated[SetBy, Field(description="The role that set it. Admins do not change what operators set.")]
    spent: Annotated[
        Money, Field(description="USD that leases have cost in the period, those that still run included.")
    ]
    committed: Annotated[
        Money,
        Field(
            description="USD that live leases may still cost at their present rates: of each, the most in any one period."
        ),
    ]
    available: Annotated[Money, Field(description="USD that are neither spent nor committed.")]
    exceeded: Annotated[bool, Field(description="Whether spent and committed exceed the amount together.")]
    period_started_at: Moment
    resets_at: Annotated[Moment | None, Field(description="When the next period begins. Null: never.")]
    created_at: Moment
    updated_at: Moment
    version: int


class BudgetPage(Page):
    """A page of budgets, newest first."""

    items: list[Budget]


def new_budget(body: NewBudget) -> service.NewBudget:
    """Converts the body. Raises InvalidRequest for a scope whose fields do not fit its kind."""
    scope = body.scope
    for kind, field, value in ((BudgetKind.KEY, "key_id", scope.key_id), (BudgetKind.LABEL, "label", scope.label)):
        if (scope.kind is kind) != (value is not None):
            detail = f"is required for the kind {kind}" if value is None else f"is only for the kind {kind}"
            raise InvalidRequest(errors=[FieldError(f"#/body/scope/{field}", detail)])
    key, _, value = (scope.label or "").partition(":")
    return service.NewBudget(
        tenant_id=scope.tenant_id,
        scope=Scope(kind=scope.kind, key_id=scope.key_id, label=None if scope.label is None else (key, value)),
        period=body.period,
        amount=body.amount,
        thresholds=tuple(body.thresholds),
        when_exceeded=body.when_exceeded,
    )


def budget_view(row: Mapping[str, Any]) -> Budget:
    """Converts a row of BudgetService. Amounts of a repeated answer are text."""
    amount, spent, committed = (Decimal(row[name]) for name in ("amount", "spent", "committed"))
    label = None if row["label_key"] is None else f"{row['label_key']}:{row['label_value']}"
    scope = {"kind": row["kind"], "tenant_id": row["tenant_id"], "key_id": row["key_id"], "label": label}
    held = spent + committed
    computed = {"scope": scope, "available": max(amount - held, Decimal(0)), "exceeded": held > amount}
    return Budget.model_validate({**row, **computed, "resets_at": row["period_ends_at"]})
