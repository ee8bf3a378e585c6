"""Why a lease failed: the errors of its attempts, each once with its count, and what to try."""

from collections.abc import Iterator, Mapping, Sequence

from app.cli.errors import Json
from app.cli.render.states import reason, refusal
from app.cli.render.texts import location

_PLACES = 4
"Locations named for one error."

_ADVICE: Mapping[str, str] = {
    "capacity_exhausted": (
        "wait longer with --wait 2h, or allow more offerings: --market any, other regions, another GPU model"
    ),
    "budget_exceeded": "release leases, ask for a shorter or cheaper one, or request a higher budget",
    "quota_exceeded": "release leases, or request a higher quota; `gpulease quota show` lists the limits",
    "spend_cap": "create a lease with a higher --max-cost, or without",
    "price_cap": "raise --max-price or leave it out, or request another quote",
    "provider_quota": "use another provider or region, or ask an operator to raise the account's quota",
    "provider_auth": "ask an operator: the provider rejects the account's credentials",
    "provider_error": "create the lease again, or use another provider",
    "launch_timeout": "create the lease again, or use another region",
    "boot_timeout": "read the boot messages with `gpulease lease console {lease}`",
    "gpu_check_failed": "create the lease again, or use another region; `gpulease lease show {lease}` lists the findings",
    "gpu_failed": "create the lease again, with --on-gpu-failure replace",
    "idle": "create a lease without --idle-action end, or hold it with `gpulease lease keep`",
    "group_pool_failed": "wait: the group tries another pool",
    "group_incomplete": "create a new group, or grow this one later",
    "group_member_lost": "create the group again, with on_member_loss replace or a smaller min_size",
    "image_missing": "choose one of `gpulease images` with --image",
    "request_too_long": "let the start-up script fetch a part of itself, or give the lease fewer SSH keys",
    "region_not_listed": "use another region, or ask an operator: `gpulease ops accounts` shows the listing",
    "interrupted": "use --market on_demand, or --on-interruption replace",
    "expired": "create a lease with a longer --ttl",
}
"What to try, by the code of the lease's reason."


def failure_lines(lease: Json, attempts: Sequence[Json]) -> Iterator[str]:
    """The reason, each error once, and the advice."""
    lease_id = str(lease["id"])
    cause = reason(lease)
    yield f"error: {lease.get('name') or lease_id} is {lease.get('state')}" + (f": {cause}" if cause else "")
    for error, places in _groups(attempts).items():
        yield f"  {len(places)} x {error} ({_named(places)})"
    code = str((lease.get("reason") or {}).get("code"))
    if code in _ADVICE:
        yield f"  try: {_ADVICE[code].format(lease=lease_id)}"
    yield f"  more: `gpulease lease explain {lease_id}` shows what would fit now"


def _groups(attempts: Sequence[Json]) -> dict[str, list[str]]:
    """Error -> the location of each attempt that it ended, the most frequent first."""
    groups: dict[str, list[str]] = {}
    for attempt in attempts:
        error = refusal(attempt)
        if error:
            groups.setdefault(error, []).append(location(attempt.get("offering")) or "unknown location")
    return dict(sorted(groups.items(), key=lambda group: -len(group[1])))


def _named(places: Sequence[str]) -> str:
    names = list(dict.fromkeys(places))
    more = len(names) - _PLACES
    return ", ".join(names[:_PLACES]) + (f" and {more} more" if more > 0 else "")
