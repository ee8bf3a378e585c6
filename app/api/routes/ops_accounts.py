"""Cloud accounts for operators, and their brake."""

from collections.abc import Sequence
from itertools import groupby
from operator import itemgetter
from typing import Any

import orjson
from fastapi import Request, Response

from app.api.http.etags import tagged, tagged_by_content
from app.api.http.responses import ListCache, answer
from app.api.http.routing import OPERATORS_ONLY, Operator, UseServices, path_part
from app.api.http.routing import router as make_router
from app.api.schemas.accounts import Account, AccountChecks, AccountCordon, AccountPage, AccountState
from app.api.schemas.base import to_bytes
from app.domain.account_checks import CheckResult
from app.domain.offerings import OfferingSelector
from app.services.ops.summary import Row

router = make_router("ops")

_ACCOUNT = ("name", "provider", "identity", "state", "checked_at", "created_at", "last_check_at", "failed_checks")
_REGION = (
    "region",
    "last_complete_listing_at",
    "listed",
    "listing_calls",
    "listing_seconds",
    "cycles",
    "catalogue_error",
)


@router.get("/v1/ops/accounts", response_model=AccountPage, dependencies=[OPERATORS_ONLY])
async def list_accounts(request: Request, services: UseServices) -> Response:
    """List the cloud accounts with identity, listings, errors and brakes."""
    return tagged(request, *_PAGE.of(await services.ops.accounts()))


@router.put("/v1/ops/accounts/{name}/cordon", response_model=Account)
async def cordon_account(name: str, body: AccountCordon, principal: Operator, services: UseServices) -> Response:
    """Stop launches at an account or at some of its offerings, or allow them again."""
    account = path_part(name)
    if body.offerings is None:
        rows = await services.ops.cordon(principal, account, cordoned=body.cordoned, note=body.note)
    else:
        selector = OfferingSelector(account=account, **dict(body.offerings))
        rows = await services.ops.cordon_offerings(principal, selector, cordoned=body.cordoned, note=body.note)
    return answer(to_bytes(_account(rows)))


@router.get("/v1/ops/accounts/{name}/checks", response_model=AccountChecks, dependencies=[OPERATORS_ONLY])
async def get_account_checks(request: Request, name: str, services: UseServices) -> Response:
    """Show the last checks of an account: rights, images, subnets, quotas and regions, with the fix for each failure."""
    return tagged_by_content(request, to_bytes(_checks(await services.ops.account_checks(path_part(name)))))


@router.post("/v1/ops/accounts/{name}/checks", status_code=202, response_model=AccountChecks)
async def request_account_checks(name: str, principal: Operator, services: UseServices) -> Response:
    """Check an account again. A worker runs the checks within a minute and starts no VM."""
    row = await services.ops.request_account_checks(principal, path_part(name))
    return answer(to_bytes(_checks(row)), status=202)


def _page(rows: Sequence[Row]) -> bytes:
    items = [_account(list(of_account)) for _, of_account in groupby(rows, itemgetter("name"))]
    return to_bytes({"items": items, "next_cursor": None})


_PAGE = ListCache(_page)


def _checks(row: Any) -> dict[str, Any]:
    checks = row.checks or []
    results = [check["result"] for check in checks]
    return {
        "account": row.name,
        "checked_at": row.checked_at,
        "requested_at": row.requested_at,
        **{str(result): results.count(result) for result in CheckResult},
        "checks": checks,
    }


def _account(rows: Sequence[Row]) -> dict[str, Any]:
    row = rows[0]
    return {
        **{name: row[name] for name in _ACCOUNT},
        "cordoned": _stored(row["cordoned"]),
        "last_error": _stored(row["last_error"]),
        "brakes": _stored(row["brakes"]),
        "draining": row["state"] == AccountState.DRAINING,
        "regions": [_region(region_row) for region_row in rows if region_row["region"] is not None],
    }


def _region(row: Row) -> dict[str, Any]:
    return {
        **{name: row[name] for name in _REGION},
        "last_error": _stored(row["region_error"]),
        "blocked": _stored(row["blocked"]),
        "cordons": _stored(row["cordons"]),
        "service_quotas": _stored(row["service_quotas"]),
    }


def _stored(text: str | None) -> orjson.Fragment | None:
    return None if text is None else orjson.Fragment(text)
