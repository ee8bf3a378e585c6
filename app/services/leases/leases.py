"""Reading leases and their attempts."""

from dataclasses import dataclass, replace
from functools import partial
from types import SimpleNamespace
from typing import Any

from app.db.core.compiled import Query
from app.db.leases import attempt_reads, lists, reads, statements
from app.domain.ids import is_typeid
from app.domain.list_filters import LeaseFilter, LeaseSort
from app.services.context import ServiceContext
from app.services.cursors import PageRequest, RowPage, cursor, moment
from app.services.errors import FieldError, InvalidRequest, ResourceNotFound
from app.services.preconditions import list_tag, version_tag
from app.services.principal import Principal, Role
from app.services.totals import total_count

_WITHOUT_SCRIPT = frozenset({Role.VIEWER})
LARGEST_PAGE = 524_288
"""Bytes of leases after which a page ends, whatever its limit is. 200 leases of the usual size have 450,000."""


@dataclass(frozen=True, slots=True)
class VersionedPage:
    """A page of leases. `page` is None when the caller has this version already."""

    etag: str
    page: RowPage | None


@dataclass(frozen=True, slots=True)
class VersionedLease:
    """One lease. `row` is None when the caller has this version already."""

    etag: str
    row: Any | None


class LeaseService:
    """Reads leases for a caller."""

    def __init__(self, context: ServiceContext) -> None:
        self._database = context.database

    async def get(self, principal: Principal, lease_id: str, known: frozenset[str] | None) -> VersionedLease:
        """A row of lease_reads.ONE_WITH_SCRIPT, for viewers of ONE. Raises ResourceNotFound."""
        query = reads.ONE if principal.role in _WITHOUT_SCRIPT else reads.ONE_WITH_SCRIPT
        key = lease_key(lease_id)
        if known:
            versions = await self._database.fetch(principal.tenant_id, reads.VERSION, lease_id=key)
            tag = version_tag(key, versions[0]["version"]) if versions else None
            if tag is not None and ("*" in known or tag in known):
                return VersionedLease(tag, None)
        rows = await self._database.fetch(principal.tenant_id, query, lease_id=key)
        if not rows:
            raise ResourceNotFound
        row = SimpleNamespace(**rows[0])
        return VersionedLease(version_tag(key, row.version), row)

    async def is_at(self, principal: Principal, lease_id: str, version: int) -> bool:
        """Whether this is the lease's current version. Raises ResourceNotFound."""
        rows = await self._database.fetch(principal.tenant_id, reads.VERSION, lease_id=lease_key(lease_id))
        if not rows:
            raise ResourceNotFound
        return bool(rows[0]["version"] == version)

    async def list(
        self,
        principal: Principal,
        criteria: LeaseFilter,
        sort: LeaseSort,
        page: PageRequest,
        known: frozenset[str] | None = None,
    ) -> VersionedPage:
        """Rows as of lease_reads.ONE, LARGEST_PAGE bytes of them or a row more. Raises InvalidRequest for a cursor of another list.

        A caller that sends the ETag of a page usually has its current version. So this method reads the versions first.
        The versions do not show where a page of LARGEST_PAGE ends. Such a page is read each time.
        """
        after, limit = _after(page, sort), page.limit + 1
        total = await self._total(principal, criteria) if page.count else None
        if known:
            versions = await self._page(principal, sort, page, lists.versions(criteria, sort, after, limit))
            tag = _tag(replace(versions, total_count=total))
            if "*" in known or tag in known:
                return VersionedPage(tag, None)
        query = lists.page(criteria, sort, after, limit, LARGEST_PAGE)
        rows = replace(await self._page(principal, sort, page, query), total_count=total)
        return VersionedPage(_tag(rows), rows)

    async def _total(self, principal: Principal, criteria: LeaseFilter) -> int:
        query, parameters = lists.count(criteria)
        [row] = await self._database.fetch(principal.tenant_id, query, **parameters)
        return int(row["total"])

    async def _page(
        self, principal: Principal, sort: LeaseSort, page: PageRequest, asked: tuple[Query, dict[str, Any]]
    ) -> RowPage:
        query, parameters = asked
        read = await self._database.fetch(principal.tenant_id, query, **parameters)
        rows = [SimpleNamespace(**row) for row in read[: page.limit]]
        more = bool(rows) and read[0].get("found", len(read)) > len(rows)
        return RowPage(rows, _cursor(rows[-1], sort) if more else None)

    async def attempts(self, principal: Principal, lease_id: str, page: PageRequest) -> RowPage:
        """All attempts of a lease, in order. Raises ResourceNotFound."""
        after = page.after("attempts")
        first = 0 if after is None else _number(after[0])
        mine = principal.tenant_id
        statement = attempt_reads.of_lease(lease_key(lease_id), within=mine, after=first, limit=page.limit + 1)
        async with self._database.transaction(mine, read_only=True) as connection:
            if (await connection.execute(statements.VERSION, statements.named(lease_id, mine))).first() is None:
                raise ResourceNotFound
            rows = (await connection.execute(statement)).all()
        first_page = partial(attempt_reads.of_lease, lease_id, within=mine, after=0, limit=1)
        total = await total_count(self._database, mine, page, first_page)
        more = len(rows) > page.limit
        rows = rows[: page.limit]
        return RowPage(rows, cursor("attempts", str(rows[-1].n)) if more else None, total)


def _tag(page: RowPage) -> str:
    return list_tag(((row.id, row.version) for row in page.rows), also=page.position)


def lease_key(lease_id: str) -> str:
    """The same text when it is the id of a lease. Raises ResourceNotFound."""
    if not is_typeid("lease", lease_id):
        raise ResourceNotFound
    return lease_id


def _after(page: PageRequest, sort: LeaseSort) -> tuple[Any, str] | None:
    parts = page.after(f"leases{sort}", 2)
    if parts is None:
        return None
    value, lease_id = parts
    return (moment(value) if sort.by_time else value), lease_id


def _cursor(row: Any, sort: LeaseSort) -> str:
    return cursor(f"leases{sort}", row.sorted_by, row.id)


def _number(text: str) -> int:
    if not (text.isascii() and text.isdigit() and len(text) < 9):
        raise _wrong_cursor()
    return int(text)


def _wrong_cursor() -> InvalidRequest:
    return InvalidRequest(errors=[FieldError("#/query/cursor", "not a cursor of this list; start without one")])
