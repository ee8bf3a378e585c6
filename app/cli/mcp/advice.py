"""Errors of the API in words for an agent: what was refused, why, and what to do."""

from collections.abc import Mapping

from app.cli.errors import CliError, FailedCall, ProblemError
from app.cli.render.output import printable
from app.cli.render.problems import causes

_AGAIN = "Call the tool again with the same arguments: a repeated create_lease makes no second lease, and create_group no second group."

_MAYBE = "The change may have been carried out, and a lease or group may exist: list_leases and list_groups show it."

_ADVICE: Mapping[str, str] = {
    "budget_exceeded": (
        "Release leases with release_lease, or create a lease that costs less: a shorter ttl_seconds, cheaper hardware, "
        "market=spot. Otherwise wait for resets_at, or ask a person for a higher budget."
    ),
    "quota_exceeded": "Release leases with release_lease, or ask a person for a higher quota.",
    "forbidden": "The key of this server has too few rights. Ask a person for a key with the role that is named above.",
    "key_has_budget": "Create a lease of your own: the key of this server changes only the costs of leases that it created.",
    "unauthenticated": "The key of this server is missing, expired or revoked. Ask a person for another key.",
    "no_offering": "Change the request. The tools plan and plan_group show why offerings do not fit.",
    "unknown_gpu_model": "Use one of the known models: the tool models lists them.",
    "unknown_region": "Use one of the known regions, or leave regions out.",
    "price_cap_too_low": "Raise max_price_per_hour to the lowest price or above.",
    "quote_expired": "Call the tool quote again, and use the new quote_id.",
    "name_taken": "Choose another name, or use the lease or group that has it: list_leases and list_groups show it.",
    "volume_in_use": "Release the lease that holds the volume, or wait: list_volumes shows who holds it.",
    "not_later": "Give a later end. A lease cannot be shortened: release it with release_lease.",
    "term_exceeded": "Request a shorter term.",
    "rate_limited": "Wait a minute, then call the tool again.",
    "tenant_suspended": "Ask a person: operators have suspended the tenant.",
}
"What to do about a code."


def explained(error: CliError) -> str:
    """The error, its causes and the advice, a line each.

    Causes contain names that other people chose. A line break in a name begins no line, which would read as advice.
    """
    if not isinstance(error, ProblemError):
        again = _maybe(error.unanswered)
        again += [_AGAIN] if error.passing or error.unanswered else []
        return "\n".join([*map(_one_line, error.lines()), *again])
    lines = map(_one_line, (f"{error} ({error.status} {error.code})", *causes(error, options={})))
    advice = _ADVICE.get(error.code) or (_AGAIN if error.passing or error.unanswered else None)
    return "\n".join([*lines, *_maybe(error.unanswered), *([f"What to do: {advice}"] if advice else [])])


def _maybe(change: FailedCall | None) -> list[str]:
    """What a person needs to find the result of a change whose answer was lost."""
    if change is None:
        return []
    if change.key is None:
        return [_MAYBE]
    sent = f"{change.method} {change.path} was sent with the idempotency key {change.key}."
    return [_MAYBE, f"{sent} The API answers the same request with that key once more, and makes no second resource."]


def _one_line(text: str) -> str:
    return printable(text.replace("\n", " "))
