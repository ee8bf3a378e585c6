"""Lists of leases: filters, orders, keyset pages."""

import json
from collections.abc import Iterable, Mapping
from functools import lru_cache
from types import MappingProxyType
from typing import Any

from sqlalchemy import (
    ColumnElement,
    ColumnExpressionArgument,
    Integer,
    Text,
    any_,
    bindparam,
    cast,
    func,
    literal_column,
    or_,
    select,
    text,
    tuple_,
)
from sqlalchemy.dialects.postgresql import ARRAY

from app.db.core.compiled import Query
from app.db.core.sql import AnySelect, Id, Json
from app.db.leases.statements import view_rows
from app.db.schema.tables import lease
from app.domain.leases import TERMINAL, Desired, LeaseState
from app.domain.list_filters import LeaseFilter, LeaseSort

_LIVE_STATES = frozenset(LeaseState) - TERMINAL

_PLAIN = (
    "tenant_id",
    "name",
    "search",
    "provider",
    "region",
    "gpu_model",
    "group_id",
    "created_after",
    "created_before",
    "updated_since",
)
"""Filters whose parameter is the field itself."""


def page(
    criteria: LeaseFilter, sort: LeaseSort, after: tuple[Any, str] | None, limit: int, most_bytes: int
) -> tuple[Query, dict[str, Any]]:
    """A query for rows as lease_reads.ONE gives them with what they are `sorted_by`, as text, and its parameters.

    `after`: sort value and id of the last row seen. The row with which `most_bytes` are passed is the last one; each row
    says how many were `found` within `limit`.
    """
    query, parameters = _prepared(criteria, sort, after, limit, versions=False)
    return query, {**parameters, "most_bytes": most_bytes}


def versions(
    criteria: LeaseFilter, sort: LeaseSort, after: tuple[Any, str] | None, limit: int
) -> tuple[Query, dict[str, Any]]:
    """The same of id, version and `sorted_by` alone, whatever the rows' size."""
    return _prepared(criteria, sort, after, limit, versions=True)


def selected(criteria: LeaseFilter, limit: int, *, running: bool) -> tuple[Query, dict[str, Any]]:
    """A query for (id, tenant_id, name, state, desired, group_id) of leases that match, by id.

    `running`: only leases whose end nobody has requested.
    """
    parameters = {**dict(_parameters(criteria)), **({"running": True} if running else {})}
    return _selected(frozenset(parameters)), {**parameters, "limit": limit}


def count(criteria: LeaseFilter) -> tuple[Query, dict[str, Any]]:
    """A query for (total): how many leases match."""
    parameters = dict(_parameters(criteria))
    return _count(frozenset(parameters)), parameters


def _prepared(
    criteria: LeaseFilter, sort: LeaseSort, after: tuple[Any, str] | None, limit: int, *, versions: bool
) -> tuple[Query, dict[str, Any]]:
    parameters = dict(_parameters(criteria))
    statement = _query(sort, frozenset(parameters), following=after is not None, versions=versions)
    if after is not None:
        parameters["after_value"], parameters["after_id"] = after
    return statement, {**parameters, "limit": limit}


_CONDITIONS: Mapping[str, ColumnExpressionArgument[bool]] = MappingProxyType(
    {
        **{
            name: lease.c[name] == bindparam(name)
            for name in ("tenant_id", "name", "provider", "region", "gpu_model", "group_id")
        },
        # Written exactly as in the partial indexes: a parameter would hide from the planner that they serve.
        "live": text("NOT lease.state IN ({})".format(", ".join(repr(str(state)) for state in sorted(TERMINAL)))),
        "running": lease.c.desired == literal_column(f"'{Desired.RUN}'"),
        "states": lease.c.state == any_(bindparam("states", type_=ARRAY(Text))),
        "search": or_(
            func.strpos(func.lower(lease.c.name), func.lower(bindparam("search", type_=Text))) > 0,
            lease.c.id == bindparam("search", type_=Id),
        ),
        "ids": lease.c.id == any_(bindparam("ids", type_=ARRAY(Id))),
        "labels": lease.c.labels.contains(bindparam("labels", type_=Json)),
        "created_after": lease.c.created_at >= bindparam("created_after"),
        "created_before": lease.c.created_at < bindparam("created_before"),
        "updated_since": lease.c.updated_at >= bindparam("updated_since"),
    }
)
"""What a filter that is given adds to the statement, by the name of its parameter."""


@lru_cache(maxsize=512)
def _query(sort: LeaseSort, names: frozenset[str], *, following: bool, versions: bool) -> Query:
    """Compiled once for each combination of filters: that takes ten times as long as running it."""
    column = lease.c[sort.column]
    rows = select(lease.c.id, lease.c.version) if versions else view_rows()
    statement = rows.add_columns(cast(column, Text).label("sorted_by")).where(
        *(_CONDITIONS[name] for name in sorted(names))
    )
    if following:
        last = tuple_(bindparam("after_value", type_=column.type), bindparam("after_id", type_=Id))
        here = tuple_(column, lease.c.id)
        statement = statement.where(here < last if sort.descending else here > last)
    statement = statement.order_by(*_ordered(sort, column, lease.c.id)).limit(bindparam("limit", type_=Integer))
    return Query(statement if versions else _within_bytes(sort, statement.add_columns(column.label("sort_value"))))


@lru_cache(maxsize=256)
def _count(names: frozenset[str]) -> Query:
    return Query(
        select(func.count().label("total")).select_from(lease).where(*(_CONDITIONS[name] for name in sorted(names)))
    )


@lru_cache(maxsize=64)
def _selected(names: frozenset[str]) -> Query:
    columns = (lease.c[name] for name in ("id", "tenant_id", "name", "state", "desired", "group_id"))
    statement = select(*columns).where(*(_CONDITIONS[name] for name in sorted(names)))
    return Query(statement.order_by(lease.c.id).limit(bindparam("limit", type_=Integer)))


def _ordered(sort: LeaseSort, *columns: ColumnElement[Any]) -> list[ColumnElement[Any]]:
    return [column.desc() if sort.descending else column.asc() for column in columns]


def _within_bytes(sort: LeaseSort, rows: AnySelect) -> AnySelect:
    """The rows before which fewer than `most_bytes` are shown: the first one always, however large.

    PostgreSQL leaves out the others, so that they are never sent.
    """
    rows_found = rows.subquery("found_rows")
    order = _ordered(sort, rows_found.c.sort_value, rows_found.c.id)
    size = func.octet_length(rows_found.c.shown) + func.octet_length(rows_found.c.request)
    before = func.coalesce(func.sum(size).over(order_by=order, rows=(None, -1)), 0)
    measured = select(rows_found, before.label("bytes_before"), func.count().over().label("found")).subquery("measured")
    columns = [column for column in measured.c if column.name not in {"sort_value", "bytes_before"}]
    within = measured.c.bytes_before < bindparam("most_bytes", type_=Integer)
    return select(*columns).where(within).order_by(*_ordered(sort, measured.c.sort_value, measured.c.id))


def _parameters(criteria: LeaseFilter) -> Iterable[tuple[str, Any]]:
    for name in _PLAIN:
        value = getattr(criteria, name)
        if value is not None:
            yield name, value
    if criteria.ids:
        yield "ids", list(criteria.ids)
    if criteria.labels:
        yield "labels", json.dumps(dict(criteria.labels))
    yield from _states(criteria.states)


def _states(states: frozenset[LeaseState]) -> Iterable[tuple[str, Any]]:
    if states and states <= _LIVE_STATES:
        yield "live", True
    if states and states != _LIVE_STATES:
        yield "states", sorted(str(state) for state in states)
