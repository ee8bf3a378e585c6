"""The operators' calls."""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from decimal import Decimal
from typing import Annotated, Any

from fastapi import Query, Request, Response
from pydantic_core import to_json

from app.api.ops_views import (
    Account,
    AccountCordon,
    AccountPage,
    AccountRegion,
    AccountState,
    Adoption,
    Brakes,
    LaunchStop,
    OpsSummary,
    OrphanPage,
)
from app.api.pagination import UsePage
from app.api.responses import answer, tagged
from app.api.routing import OPERATORS_ONLY, Operator, UseServices
from app.api.routing import router as make_router
from app.domain.money import format_money
from app.services import ops
from app.services.errors import NotFound
from app.services.preconditions import list_tag

router = make_router("ops")

_WORST = 20
_REGION = tuple(AccountRegion.model_fields)


@router.get("/v1/ops/summary", response_model=OpsSummary, dependencies=[OPERATORS_ONLY])
async def get_ops_summary(request: Request, services: UseServices) -> Response:
    """Read what goes on in the whole installation."""
    content = to_json(_summary(await services.ops.summary()))
    return tagged(request, content, list_tag((), also=content.decode()))


@router.get("/v1/ops/orphans", response_model=OrphanPage, dependencies=[OPERATORS_ONLY])
async def list_orphans(
    request: Request,
    services: UseServices,
    page: UsePage,
    *,
    gone: Annotated[bool, Query(description="Show those too that are no more (kept 30 days).")] = False,
) -> Response:
    """List VMs that no lease stands behind, and what was done about them."""
    found = await services.ops.orphans(gone=gone, page=page)
    facts = "\n".join(
        f"{row.account} {row.instance_id} {row.state} {row.sightings} {row.end_after}" for row in found.rows
    )
    items = [_orphan(row) for row in found.rows]
    content = to_json({"items": items, "next_cursor": found.next_cursor})
    return tagged(request, content, list_tag((), also=f"{facts}\n{found.next_cursor}"))


@router.post("/v1/ops/orphans/{account}/{region}/{instance_id}/end", status_code=204)
async def end_orphan(
    account: str, region: str, instance_id: str, principal: Operator, services: UseServices
) -> Response:
    """End an orphan at the next cycle of garbage collection, without waiting for its grace."""
    await services.ops.end_orphan(principal, _path(account), _path(region), _path(instance_id))
    return Response(status_code=204)


@router.post("/v1/ops/adopt", status_code=202, response_model=Adoption)
async def adopt_orphans(principal: Operator, services: UseServices) -> Response:
    """Rebuild the leases of all VMs without a row from their tags; the orphans show how each went."""
    return answer(to_json({"requested": await services.ops.adopt(principal)}), status=202)


@router.get("/v1/ops/accounts", response_model=AccountPage, dependencies=[OPERATORS_ONLY])
async def list_accounts(request: Request, services: UseServices) -> Response:
    """List the cloud accounts: identity, listings, errors, brakes."""
    items = [_account(one) for one in await services.ops.accounts()]
    content = to_json({"items": items, "next_cursor": None})
    return tagged(request, content, list_tag((), also=content.decode()))


@router.put("/v1/ops/accounts/{name}/cordon", response_model=Account)
async def cordon_account(name: str, body: AccountCordon, principal: Operator, services: UseServices) -> Response:
    """Launch nothing more at an account, or allow it again."""
    found = await services.ops.cordon(principal, _path(name), cordoned=body.cordoned, note=body.note)
    return answer(to_json(_account(found)))


@router.put("/v1/ops/launches", response_model=Brakes)
async def stop_launches(body: LaunchStop, principal: Operator, services: UseServices) -> Response:
    """Stop all launches at once, or allow them again."""
    return answer(to_json(_brakes(await services.ops.stop_launches(principal, stopped=body.stopped, note=body.note))))


@router.post("/v1/ops/deadman", status_code=204, dependencies=[OPERATORS_ONLY])
async def tell_deadman_pass(services: UseServices) -> Response:
    """Tell that `gpulease deadman` has looked at every account: `/readyz` warns when it is not heard of."""
    await services.ops.deadman_passed()
    return Response(status_code=204)


@router.post("/v1/ops/resume", response_model=Brakes)
async def lift_hold(principal: Operator, services: UseServices) -> Response:
    """Lift the hold that a changed or restored database has set."""
    return answer(to_json(_brakes(await services.ops.resume(principal))))


def _path(part: str) -> str:
    """PostgreSQL's text holds no U+0000, so nothing has such a name."""
    if "\x00" in part:
        raise NotFound
    return part


def _summary(found: ops.Summary) -> dict[str, Any]:
    ready = found.time_to_ready
    return {
        "as_of": found.brakes.as_of,
        "brakes": _brakes(found.brakes),
        "by_state": [{"state": row.state, "leases": row.leases} for row in found.counts],
        "by_provider": _grouped(found.placed, "provider"),
        "by_region": _grouped(found.placed, "region"),
        "by_gpu_model": _grouped(found.placed, "gpu_model"),
        "gpus": sum(row.gpus for row in found.placed),
        "spend_per_hour": format_money(found.spend_now),
        "spend_month_to_date": format_money(found.spend_of_month),
        "capacity_failures": {
            "total": sum(row.failures for row in found.capacity_failures),
            "worst": [dict(row._mapping) for row in found.capacity_failures[:_WORST]],  # noqa: SLF001 - SQLAlchemy's public name
        },
        "orphans": [{"cause": row.cause, "orphans": row.orphans} for row in found.orphan_counts],
        "stuck": [dict(row._mapping) for row in found.stuck],  # noqa: SLF001 - as above
        "time_to_ready": {
            "leases": ready.leases,
            "p50_seconds": _float(ready.p50),
            "p95_seconds": _float(ready.p95),
        },
        "processes": [
            {"kind": row.kind, "processes": row.processes, "last_seen_seconds": _float(row.age)}
            for row in found.heartbeats
        ],
        "invariants": _invariants(found.invariants),
    }


def _invariants(rows: Sequence[Any]) -> dict[str, Any]:
    return {
        "checked_at": min((row.checked_at for row in rows), default=None),
        "broken": [
            {"name": row.name, "violations": row.violations, "examples": row.examples, "since": row.since}
            for row in rows
            if row.violations
        ],
    }


def _grouped(rows: Iterable[Any], column: str) -> list[dict[str, Any]]:
    groups: dict[str, list[Any]] = defaultdict(list)
    for row in rows:
        groups[getattr(row, column) or "unknown"].append(row)
    return [
        {
            "name": name,
            "leases": sum(row.leases for row in members),
            "gpus": sum(row.gpus for row in members),
            "spend_per_hour": format_money(sum((row.spend_per_hour for row in members), Decimal(0))),
        }
        for name, members in sorted(groups.items())
    ]


def _brakes(row: Any) -> dict[str, Any]:
    hold = row.hold
    return {
        "installation_id": row.id,
        "launches_stopped": row.launches_stopped,
        "hold": None if hold is None else {"reason": hold.get("reason"), "since": hold.get("since")},
    }


def _orphan(row: Any) -> dict[str, Any]:
    shown = dict(row._mapping)  # noqa: SLF001 - SQLAlchemy's public name
    as_of = shown.pop("as_of")
    price = row.price_per_hour
    age = (row.gone_at or as_of) - (row.launched_at or row.first_seen_at)
    return {
        **shown,
        "price_per_hour": None if price is None else format_money(price),
        "age_seconds": age.total_seconds(),
    }


def _account(found: ops.AccountState) -> dict[str, Any]:
    row = found.account
    return {
        **dict(row._mapping),  # noqa: SLF001 - SQLAlchemy's public name
        "draining": row.state == AccountState.DRAINING,
        "regions": [_region(region) for region in found.regions],
    }


def _region(row: Any) -> dict[str, Any]:
    return {
        **{name: getattr(row, name) for name in _REGION},
        "listing_seconds": _float(row.listing_seconds),
    }


def _float(value: Any) -> float | None:
    return None if value is None else float(value)
