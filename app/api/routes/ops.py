"""Endpoints for operators."""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from decimal import Decimal
from functools import lru_cache
from types import SimpleNamespace
from typing import Annotated, Any

from fastapi import Query, Request, Response
from pydantic_core import to_json

from app.api.http.etags import tagged
from app.api.http.pagination import UsePage
from app.api.http.responses import answer
from app.api.http.routing import DEADMAN_OR_OPERATOR, OPERATORS_ONLY, Operator, UseServices
from app.api.http.routing import router as make_router
from app.api.schemas.base import to_bytes
from app.api.schemas.brakes import Brakes, LaunchStop
from app.api.schemas.ops_summary import OpsSummary
from app.api.schemas.orphans import Adoption, OrphanPage
from app.domain.billing import stored_cost
from app.domain.cool_off import refusal_reason
from app.domain.money import format_money
from app.services.ops.summary import Row, Summary
from app.services.preconditions import list_tag

router = make_router("ops")

_WORST = 20
_TRIED_AT = ("provider", "region", "instance_type", "market")
_SIGN_OF_LIFE = 30
"A healthy process reports at least once in this many seconds."
_CHECK_STEP = 300
"A new check of the invariants with the same result changes the ETag at most once in this many seconds."


@router.get("/v1/ops/summary", response_model=OpsSummary, dependencies=[OPERATORS_ONLY])
async def get_ops_summary(request: Request, services: UseServices) -> Response:
    """Read the summary of the whole installation.

    Values that change with time (`as_of`, `spend_month_to_date`, the seconds of `processes`, `checked_at` of `invariants`)
    change the ETag only occasionally.
    """
    return tagged(request, *_rendered(await services.ops.summary()))


@lru_cache(maxsize=1)
def _rendered(summary: Summary) -> tuple[bytes, str]:
    """The response and its ETag, rendered once for all readers of the same data."""
    lasting, passing = to_bytes(_lasting(summary)), to_bytes(_passing(summary))
    facts = lasting + to_bytes(_steady(summary))
    return passing[:-1] + b"," + lasting[1:], list_tag((), also=facts.decode())


@router.get("/v1/ops/orphans", response_model=OrphanPage, dependencies=[OPERATORS_ONLY])
async def list_orphans(
    request: Request,
    services: UseServices,
    page: UsePage,
    *,
    gone: Annotated[bool, Query(description="Include orphans that have ended in the last 30 days.")] = False,
) -> Response:
    """List VMs that belong to no lease, with their cost and the actions taken on them."""
    matches = await services.ops.orphans(gone=gone, page=page)
    facts = "\n".join(
        f"{row.account} {row.instance_id} {row.state} {row.sightings} {row.end_after} {row.end_error}"
        for row in matches.rows
    )
    items = [_orphan(row) for row in matches.rows]
    content = to_json({"items": items, "next_cursor": matches.next_cursor, "total_count": matches.total_count})
    return tagged(request, content, list_tag((), also=f"{facts}\n{matches.position}"))


@router.post("/v1/ops/orphans/{orphan_id}/end", status_code=204)
async def end_orphan(orphan_id: str, principal: Operator, services: UseServices) -> Response:
    """End an orphan at the next garbage collection cycle without waiting for its grace period."""
    await services.ops.end_orphan(principal, orphan_id)
    return Response(status_code=204)


@router.post("/v1/ops/adopt", status_code=202, response_model=Adoption)
async def adopt_orphans(principal: Operator, services: UseServices) -> Response:
    """Rebuild the leases of all orphans of cause `lost_row` from their tags. Each orphan reports its result."""
    return answer(to_json({"requested": await services.ops.adopt(principal)}), status=202)


@router.put("/v1/ops/launches", response_model=Brakes)
async def set_launch_stop(body: LaunchStop, principal: Operator, services: UseServices) -> Response:
    """Stop all launches immediately, or allow them again."""
    return answer(to_json(_brakes(await services.ops.stop_launches(principal, stopped=body.stopped, note=body.note))))


@router.post("/v1/ops/deadman", status_code=204, dependencies=[DEADMAN_OR_OPERATOR])
async def record_deadman_heartbeat(services: UseServices) -> Response:
    """Report that `gpulease deadman` has checked every account. `/readyz` warns when these reports stop.

    A key of the role `deadman` may use only this call.
    """
    await services.ops.deadman_passed()
    return Response(status_code=204)


@router.post("/v1/ops/resume", response_model=Brakes)
async def resume_installation(principal: Operator, services: UseServices) -> Response:
    """Lift the hold that a changed or restored database has set."""
    return answer(to_json(_brakes(await services.ops.resume(principal))))


def _lasting(summary: Summary) -> dict[str, Any]:
    """The fields that change with an event."""
    ready = summary.time_to_ready
    return {
        "brakes": _brakes(SimpleNamespace(**summary.brakes)),
        "by_state": summary.counts,
        "by_provider": _grouped(summary.placed, "provider"),
        "by_region": _grouped(summary.placed, "region"),
        "by_gpu_model": _grouped(summary.placed, "gpu_model"),
        "by_tenant": [{**row, "spend_per_hour": _money(row["spend_per_hour"])} for row in summary.tenants],
        "gpus": sum(row["gpus"] for row in summary.placed),
        "spend_per_hour": _money(summary.spend_now),
        "capacity_failures": _places(summary.trouble, "failures"),
        "interruptions": _places(summary.trouble, "interruptions"),
        "orphans": summary.orphan_counts,
        "active_brakes": summary.active_brakes,
        "refused_launches": _refused(summary.refused_launches),
        "late_jobs": [{**row, "interval_seconds": float(row["interval_seconds"])} for row in summary.late_jobs],
        "failed_checks": [{**row, "names": row["names"] or []} for row in summary.failed_checks],
        "unlisted_charges": summary.unlisted_charges,
        "lost_hosts": [{"host": row["host"], "kind": row["kind"]} for row in summary.lost_hosts],
        "warnings": summary.warnings,
        "stuck": summary.stuck,
        "time_to_ready": {
            "leases": ready["leases"],
            "p50_seconds": _float(ready["p50"]),
            "p95_seconds": _float(ready["p95"]),
        },
    }


def _passing(summary: Summary) -> dict[str, Any]:
    """The fields that change with time."""
    return {
        "as_of": summary.as_of,
        "spend_month_to_date": _money(summary.spend_of_month),
        "processes": [
            {"kind": row["kind"], "processes": row["processes"], "last_seen_seconds": _float(row["age"])}
            for row in summary.heartbeats
        ],
        "invariants": _invariants(summary.invariants),
        "ghost_leases": [
            {"account": row["account"], "region": row["region"], "leases": row["leases"], "seconds": _float(row["age"])}
            for row in summary.ghosts
        ],
        "overdue": {"leases": summary.overdue["leases"], "seconds": _float(summary.overdue["age"])},
        "events": {name: _float(summary.event_lag[name]) for name in ("unnumbered_seconds", "webhooks_seconds")},
    }


def _invariants(rows: Sequence[Row]) -> dict[str, Any]:
    return {
        "checked_at": min((row["checked_at"] for row in rows), default=None),
        "broken": [
            {name: row[name] for name in ("name", "violations", "examples", "since")}
            for row in rows
            if row["violations"]
        ],
    }


def _steady(summary: Summary) -> dict[str, Any]:
    """The rounded values of those fields in the ETag: the hour, and report ages in steps."""
    alive = [(row["kind"], row["processes"], int(row["age"] // _SIGN_OF_LIFE)) for row in summary.heartbeats]
    invariants = _invariants(summary.invariants)
    checked = invariants["checked_at"]
    ghosts = [(row["account"], row["region"], row["leases"]) for row in summary.ghosts]
    return {
        "hour": summary.as_of.replace(minute=0, second=0, microsecond=0),
        "alive": alive,
        "ghosts": ghosts,
        "broken": invariants["broken"],
        "waiting": [int(age // _SIGN_OF_LIFE) for age in (*summary.event_lag.values(), summary.overdue["age"])],
        "checked": checked and int(checked.timestamp() // _CHECK_STEP),
    }


def _places(rows: Sequence[Row], name: str) -> dict[str, Any]:
    """The most frequent first; rows with equal counts keep the order of `rows`."""
    worst = sorted((row for row in rows if row[name]), key=lambda row: -row[name])
    return {
        "total": sum(row[name] for row in worst),
        "worst": [{column: row[column] for column in (*_TRIED_AT, name)} for row in worst[:_WORST]],
    }


def _refused(rows: Sequence[Row]) -> list[dict[str, Any]]:
    return [
        {
            **{name: row[name] for name in ("provider", "account", "region", "since", "code", "message")},
            "reason": refusal_reason(row["outcome"]),
            "launches": row["in_a_row"],
        }
        for row in rows
    ]


def _grouped(rows: Iterable[Row], column: str) -> list[dict[str, Any]]:
    groups: dict[str, list[Row]] = defaultdict(list)
    for row in rows:
        groups[row[column] or "unknown"].append(row)
    return [
        {
            "name": name,
            "leases": sum(row["leases"] for row in members),
            "gpus": sum(row["gpus"] for row in members),
            "spend_per_hour": _money(sum(row["spend_per_hour"] for row in members)),
        }
        for name, members in sorted(groups.items())
    ]


def _money(value: Decimal | int) -> str:
    return format_money(Decimal(value))


def _brakes(row: Any) -> dict[str, Any]:
    hold = row.hold
    return {
        "installation_id": row.id,
        "launches_stopped": row.launches_stopped,
        "hold": None if hold is None else {"reason": hold.get("reason"), "since": hold.get("since")},
    }


def _orphan(row: Any) -> dict[str, Any]:
    columns = dict(row._mapping)  # noqa: SLF001 - SQLAlchemy's public name
    as_of = columns.pop("as_of")
    price = row.price_per_hour
    began, ended = row.launched_at or row.first_seen_at, row.gone_at or as_of
    return {
        **columns,
        "price_per_hour": None if price is None else format_money(price),
        "age_seconds": (ended - began).total_seconds(),
        "cost": None if price is None else format_money(stored_cost(price, ended - began)),
    }


def _float(value: Any) -> float | None:
    return None if value is None else float(value)
