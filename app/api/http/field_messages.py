"""What is wrong with a field, in words for callers. Pydantic's own messages name its types and regular expressions."""

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any

from app.api.schemas.patterns import RULES

_LONGEST = 300
_Finding = Mapping[str, Any]


def field_message(finding: _Finding) -> str:
    """The rest of a sentence that begins with the field's name. `finding`: one of Pydantic's errors."""
    kind, context = finding["type"], finding.get("ctx") or {}
    if kind in _FIXED:
        return _FIXED[kind]
    if kind in _BY_LIMIT:
        return _BY_LIMIT[kind](context)
    if kind == "value_error":
        return str(context.get("error") or finding["msg"])[:_LONGEST]
    return _OTHER


_OTHER = "is not valid"
_NUMBER, _WHOLE, _TIME = "must be a number", "must be a whole number", "must be a time such as 2030-01-31T12:00:00Z"
_DECIMAL = 'must be a decimal number as a string, such as "32.50"'
_OBJECT, _TRUTH, _STRING = "must be a JSON object", "must be true or false", "must be a string"
_FIXED = MappingProxyType(
    {
        "missing": "is required",
        "extra_forbidden": "is not a field of this request",
        "string_type": _STRING,
        "string_unicode": "must be valid UTF-8",
        "int_type": _WHOLE,
        "int_from_float": _WHOLE,
        "int_parsing": _WHOLE,
        "int_parsing_size": "is too large",
        "float_type": _NUMBER,
        "float_parsing": _NUMBER,
        "finite_number": "must be a finite number",
        "decimal_type": _DECIMAL,
        "decimal_parsing": _DECIMAL,
        "bool_type": _TRUTH,
        "bool_parsing": _TRUTH,
        "list_type": "must be a list",
        "dict_type": _OBJECT,
        "model_type": _OBJECT,
        "model_attributes_type": _OBJECT,
        "dataclass_type": _OBJECT,
        "timezone_aware": "must have a time zone, such as Z for UTC",
        "datetime_type": _TIME,
        "datetime_parsing": _TIME,
        "datetime_from_date_parsing": _TIME,
        "datetime_object_invalid": _TIME,
        "recursion_loop": "is nested too deeply",
    }
)


def _pattern(context: _Finding) -> str:
    return RULES.get(str(context.get("pattern")), "has a character or a form that is not allowed")


def _size(context: _Finding, limit: str, bound: str) -> str:
    length = context[limit]
    return f"must have {bound} {length} {'item' if length == 1 else 'items'}"


def _text(context: _Finding, limit: str, bound: str) -> str:
    length = context[limit]
    if bound == "at least" and length == 1:
        return "must not be empty"
    return f"must have {bound} {length} {'character' if length == 1 else 'characters'}"


_BY_LIMIT: Mapping[str, Callable[[_Finding], str]] = MappingProxyType(
    {
        "greater_than_equal": lambda c: f"must be at least {c['ge']}",
        "greater_than": lambda c: f"must be greater than {c['gt']}",
        "less_than_equal": lambda c: f"must be at most {c['le']}",
        "less_than": lambda c: f"must be less than {c['lt']}",
        "multiple_of": lambda c: f"must be a multiple of {c['multiple_of']}",
        "string_pattern_mismatch": _pattern,
        "string_too_short": lambda c: _text(c, "min_length", "at least"),
        "string_too_long": lambda c: _text(c, "max_length", "at most"),
        "too_short": lambda c: _size(c, "min_length", "at least"),
        "too_long": lambda c: _size(c, "max_length", "at most"),
        "enum": lambda c: f"must be one of {_choices(c)}",
        "literal_error": lambda c: f"must be one of {_choices(c)}",
        "decimal_max_digits": lambda c: f"must have at most {c['max_digits']} digits",
        "decimal_max_places": lambda c: f"must have at most {c['decimal_places']} decimal places",
        "decimal_whole_digits": lambda c: f"must have at most {c['whole_digits']} digits before the decimal point",
        "timezone_offset": lambda _: "must have a time zone, such as Z for UTC",
    }
)


def _choices(context: _Finding) -> str:
    """`a, b or c`, as Pydantic lists the values: `'a', 'b' or 'c'`."""
    return str(context.get("expected", "")).replace("'", "")
