"""Why a request that openapi.json allows may be refused all the same: what no schema can express, one reason each."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

ANY = re.compile("")


@dataclass(frozen=True)
class Reason:
    """A refusal with one of `codes`, of which a wrong field has such a pointer and detail, if it names fields."""

    why: str
    codes: frozenset[str]
    pointer: re.Pattern[str] = ANY
    detail: re.Pattern[str] = ANY


def _field(why: str, pointer: str, detail: str = "") -> Reason:
    return Reason(why, frozenset({"invalid_request"}), re.compile(pointer), re.compile(detail))


def _code(why: str, *codes: str) -> Reason:
    return Reason(why, frozenset(codes))


REASONS = (
    _field("JSON Schema takes 60.0 for an integer, the API wants 60", "", "whole number"),
    Reason("a header is text and cannot be null", frozenset({"bad_header"}), re.compile("^#/header/")),
    _field("PostgreSQL stores no U+0000 and no lone surrogates", "", r"U\+0000|surrogate"),
    _field("a cursor is opaque: only those that a list has returned are valid", "/cursor$"),
    _field("the caller's key decides whether a tenant must or may be named", "/tenant_id$"),
    _field("the host of a URL must lead to a public address", "/url$"),
    _field("a lease at its creation is not longer than it may ever be", "/max_t(tl|otal)_seconds$", "max_t"),
    _field("an operator's key has no tenant", "", "tenant"),
    _field("a network has no bits below its prefix", r"/allowed_cidrs/\d+$"),
    _field("an SSH key must decode", r"/ssh_public_keys(/\d+)?$|/keys(/\d+)?$|/public_key$"),
    _field("a startup script begins with #! and is UTF-8 of limited size", "/startup_script$"),
    _field("the resources of quotas are a rule, not a list", r"/limits(/\d+)?(/resource|/limit)?$"),
    _field("ids are lists in one text", r"/ids(/\d+)?$"),
    _field("each event type is named once and known", r"/event_types(/\d+)?$"),
    _field("an expiry is in the future", "/expires_at$"),
    _field("a decimal has at most 14 digits", "/max_price_per_hour$|/limit$|/max_cost$|/amount$|/budget$"),
    _field("the scope of a budget has the field of its kind, and names a key of the tenant", r"/scope/(key_id|label)$"),
    _field("groupings of costs are lists in one text", "/group_by$"),
    _field("plans and quotes are made without a quote", "/quote_id$"),
    _field("a time is within the years that UTC has", "/(created|updated)_[a-z]+$"),
    _field(
        "use is kept for 13 months, and a report has a limited number of steps",
        "^#/query/(from|to)$",
        "must|at most|most",
    ),
    _field("a filter of labels is key or key=value", r"/label(/\d+)?$"),
    _field(
        "a model is known by its name, its configuration or its number of parameters", "/(model|config|parameters)(/|$)"
    ),
    _field("an image is one that an account has", "/image$"),
    _field("a volume is where an account has an offering", "/(account|region|zone)$", "no offering"),
    _field("the members of a group are named after it", "/lease/name$"),
    _field(
        "a group has members enough, in one region that has what they need",
        "/(min_size|size|interconnect|lease/regions)$",
    ),
    _code("the version in If-Match is not the present one", "version_conflict"),
    _code("the events after this number are deleted", "cursor_expired"),
    _code("the lease's own expiry decides what is later", "not_later"),
    _code("the tenant's limits decide how long a lease may be", "term_exceeded"),
    _code(
        "the catalogue decides what can be leased",
        *("unknown_gpu_model", "unknown_region", "unknown_instance_type", "price_cap_too_low"),
    ),
    _code("the key was used with another body", "idempotency_mismatch"),
)


def is_named(problem: Mapping[str, Any]) -> bool:
    """Whether each thing that is wrong has a reason above."""
    errors = problem["errors"] or [{"pointer": "", "detail": problem["detail"]}]
    return all(any(_fits(reason, problem["code"], error) for reason in REASONS) for error in errors)


def _fits(reason: Reason, code: str, error: Mapping[str, str]) -> bool:
    return bool(
        code in reason.codes and reason.pointer.search(error["pointer"]) and reason.detail.search(error["detail"])
    )
