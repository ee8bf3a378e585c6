"""The query parameters of GET /v1/leases."""

from collections.abc import Iterable
from enum import StrEnum
from typing import Annotated

from fastapi import Depends, Query
from pydantic import AfterValidator

from app.api.schemas.base import Text, Timestamp
from app.domain.ids import is_typeid
from app.domain.leases import TERMINAL, LeaseState
from app.domain.list_filters import LeaseFilter, LeaseSort
from app.services.errors import FieldError, InvalidRequest

_MOST_IDS = 100
_LIVE = frozenset(LeaseState) - TERMINAL


class LeaseStateFilter(StrEnum):
    """A lease state, or `!terminal` for all leases that have not ended."""

    QUEUED = "queued"
    PROVISIONING = "provisioning"
    BOOTING = "booting"
    ACTIVE = "active"
    RELEASING = "releasing"
    RELEASED = "released"
    FAILED = "failed"
    NOT_TERMINAL = "!terminal"


def _label(text: str) -> str:
    if ":" not in text:
        raise ValueError("must be key:value")
    return text


QueryText = Annotated[Text, Query(max_length=200)]
QueryLabel = Annotated[Text, AfterValidator(_label)]


async def _filter(  # noqa: PLR0913, PLR0917 - one argument for each query parameter
    state: Annotated[list[LeaseStateFilter] | None, Query(description="Repeatable.")] = None,
    name: Annotated[QueryText | None, Query(description="The exact name.")] = None,
    search: Annotated[
        QueryText | None, Query(description="A substring of the name (case-insensitive), or the whole id.")
    ] = None,
    provider: QueryText | None = None,
    region: QueryText | None = None,
    gpu_model: QueryText | None = None,
    label: Annotated[
        list[QueryLabel] | None,
        Query(max_length=20, description="A label as `key:value`. Repeat the parameter to require several labels."),
    ] = None,
    ids: Annotated[
        list[Text] | None,
        Query(description=f"Up to {_MOST_IDS} ids; repeat the parameter, or separate ids with commas."),
    ] = None,
    created_after: Timestamp | None = None,
    created_before: Timestamp | None = None,
    updated_since: Timestamp | None = None,
    group_id: Annotated[QueryText | None, Query(description="Only members of this group.")] = None,
    tenant_id: Annotated[QueryText | None, Query(description="Operators only.")] = None,
) -> LeaseFilter:
    if group_id is not None and not is_typeid("group", group_id):
        raise InvalidRequest(errors=[FieldError("#/query/group_id", "must be the id of a group")])
    return LeaseFilter(
        tenant_id=tenant_id,
        group_id=group_id,
        states=_states(state or ()),
        ids=_ids(ids or ()),
        name=name,
        search=search,
        provider=provider,
        region=region,
        gpu_model=gpu_model,
        labels=dict(pair.split(":", 1) for pair in label or ()),
        created_after=created_after,
        created_before=created_before,
        updated_since=updated_since,
    )


def _states(filters: Iterable[LeaseStateFilter]) -> frozenset[LeaseState]:
    states: set[LeaseState] = set()
    for state_filter in filters:
        states |= _LIVE if state_filter is LeaseStateFilter.NOT_TERMINAL else {LeaseState(state_filter.value)}
    return frozenset(states)


def _ids(values: Iterable[str]) -> tuple[str, ...]:
    ids = tuple(dict.fromkeys(part.strip() for value in values for part in value.split(",")))
    if len(ids) > _MOST_IDS:
        raise InvalidRequest(errors=[FieldError("#/query/ids", f"at most {_MOST_IDS} ids")])
    if not all(is_typeid("lease", lease_id) for lease_id in ids):
        raise InvalidRequest(errors=[FieldError("#/query/ids", "must be ids of leases")])
    return ids


UseLeaseFilter = Annotated[LeaseFilter, Depends(_filter)]
UseLeaseSort = Annotated[
    LeaseSort,
    Query(
        alias="sort",
        description=(
            "The sort field. A leading minus sorts in descending order. The id breaks ties. A lease that changes between "
            "two pages moves in the order of `updated_at`: it can appear twice, or with `-updated_at` be missing."
        ),
    ),
]
