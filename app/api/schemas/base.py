"""Base classes and types that all request and response models share.

Bodies are strict: the API rejects an unknown field, a number sent as text and a boolean sent as a number. Views are
complete: every field is present in every response, and a field without a value is null.
"""

from datetime import UTC, datetime
from decimal import Decimal
from typing import Annotated, Any

import orjson
from pydantic import (
    AfterValidator,
    AwareDatetime,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    PlainSerializer,
    WithJsonSchema,
)
from pydantic_core import PydanticKnownError
from typing_extensions import TypeAliasType

from app.api.schemas import patterns
from app.domain.money import format_money

_DECIMAL_SCHEMA = {"type": "string", "pattern": r"^[0-9]{1,8}(\.[0-9]{1,6})?$", "examples": ["32.50"]}
_DECIMAL_OUT_SCHEMA = {"type": "string", "pattern": r"^-?[0-9]+(\.[0-9]+)?$", "examples": ["32.50"]}


class Body(BaseModel):
    """A request body."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True, allow_inf_nan=False)


class View(BaseModel):
    """A response or a part of a response."""

    model_config = ConfigDict(frozen=True)


class Page(View):
    """A page of a list. A subclass has `items`."""

    next_cursor: Annotated[str | None, Field(description="`cursor` of the next page. Null: this is the last page.")]
    total_count: Annotated[
        int | None, Field(description="Items of all pages at the time of the call. Null without `count=true`.")
    ]


def _text(value: Any) -> Any:
    if not isinstance(value, str):
        raise ValueError("must be a string")  # noqa: TRY004 - pydantic turns only ValueError into a field error
    return value


def _time_text(value: Any) -> Any:
    """Refuses numbers, which pydantic takes for seconds or milliseconds since 1970."""
    if ":" not in _text(value):
        raise PydanticKnownError("datetime_parsing", {"error": "it is no date with a time"})
    return value


def _storable(value: str) -> str:
    if "\x00" in value:
        raise ValueError("must not contain U+0000")
    if not value.isascii() and any("\ud800" <= character <= "\udfff" for character in value):
        raise ValueError("must not contain lone surrogates")
    return value


def _utc(value: datetime) -> datetime:
    try:
        return value.astimezone(UTC)
    except OverflowError:
        raise ValueError("is out of range") from None


Text = Annotated[str, AfterValidator(_storable)]
"Text that PostgreSQL can store. Use it with `Field(max_length=…)`."

Name = Annotated[str, Field(pattern=patterns.NAME.regex, examples=["vision-lab"])]
(
    "1 to 63 letters, digits, spaces, dots, underscores and hyphens. The first and last character must be a letter or "
    "digit."
)

DecimalText = Annotated[
    Decimal,
    BeforeValidator(_text),
    Field(strict=False, ge=0, max_digits=14, decimal_places=6, allow_inf_nan=False),
    WithJsonSchema(_DECIMAL_SCHEMA),
]
"An amount in a request: a non-negative decimal, sent as a string so that no client rounds it."

Money = Annotated[
    Decimal, PlainSerializer(format_money, return_type=str), WithJsonSchema(_DECIMAL_OUT_SCHEMA, mode="serialization")
]
"An amount in USD in a response."

Details = TypeAliasType(
    "Details",
    Annotated[dict[str, Any], Field(description="An object whose fields depend on the resource it describes.")],
)
"A schema of its own, so that generated clients use one name for it."

Moment = AwareDatetime
"A time in a response: RFC 3339, UTC."

Timestamp = Annotated[AwareDatetime, BeforeValidator(_time_text), Field(strict=False), AfterValidator(_utc)]
"A time in a request: RFC 3339 with an offset. The API converts it to UTC."


ActingTenant = Annotated[
    str | None,
    Field(max_length=40, description="The tenant to act for. Required for operators; others may name only their own."),
]
"""`tenant_id` of a body."""


def to_bytes(value: Any) -> bytes:
    """Plain values as JSON; times in UTC with a Z."""
    return orjson.dumps(value, option=orjson.OPT_UTC_Z)
