"""Fields that several bodies of leases have: labels, warnings before the end, the id of a quote."""

from typing import Annotated

from pydantic import AfterValidator, Field, WithJsonSchema
from typing_extensions import TypeAliasType

from app.domain import labels

_DAY = 86_400
_MOST_WARNINGS = 10

QuoteId = Annotated[str, Field(max_length=40, examples=["quote_01jz0000000000000000000000"])]
ExpiryWarnings = Annotated[
    Annotated[list[Annotated[int, Field(ge=1, le=_DAY)]], Field(max_length=_MOST_WARNINGS)] | None,
    Field(
        description=(
            "How many seconds before its end the lease sends `lease.expiring_soon`. A warning that is not shorter than "
            "the lease is left out. Null: as the installation is configured."
        ),
        examples=[[1800, 300]],
    ),
]


def _label_key(text: str) -> str:
    if not labels.is_key(text):
        raise ValueError(labels.KEY_RULE)
    return text


def _label_value(text: str) -> str:
    if not labels.is_value(text):
        raise ValueError(labels.VALUE_RULE)
    return text


Labels = TypeAliasType(
    "Labels",
    Annotated[
        dict[
            Annotated[
                str,
                AfterValidator(_label_key),
                WithJsonSchema({"type": "string", "pattern": f"^{labels.KEY_PATTERN}$", "maxLength": 317}),
            ],
            Annotated[
                str,
                AfterValidator(_label_value),
                WithJsonSchema({"type": "string", "pattern": r"^[^\x00-\x1f\x7f-\x9f]*$", "maxLength": 63}),
            ],
        ],
        Field(
            max_length=labels.MOST,
            description=(
                "At most 20 labels. Keys are as in Kubernetes: a name of at most 63 letters, digits, `_`, `.` and `-`, "
                "perhaps after a DNS prefix and `/`. Values have at most 63 characters, without control characters."
            ),
        ),
    ],
)
