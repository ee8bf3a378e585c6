"""The FOCUS export: usage records as CSV, page by page, so that an export of any size needs the memory of one page."""

import asyncio
import csv
import zlib
from collections.abc import AsyncIterator
from dataclasses import dataclass
from datetime import UTC, datetime

from app.db.core.engine import copy_csv
from app.db.usage import costs
from app.db.usage import focus as statements
from app.db.usage.focus import FocusPosition
from app.domain.focus import COLUMNS, month_period
from app.services.context import ServiceContext
from app.services.errors import FieldError, InvalidRequest
from app.services.money.usage import tenant_of
from app.services.principal import Principal

_PAGE_RECORDS = 10_000
_GZIP = 16 + zlib.MAX_WBITS
_FAST = 1
_START, _ATTEMPT, _REVISION = (COLUMNS.index(name) for name in ("ChargePeriodStart", "x_AttemptId", "x_Revision"))


@dataclass(frozen=True, slots=True)
class FocusExport:
    """`month`: as 2026-11. `content`: the CSV with its header, in pieces."""

    month: str
    content: AsyncIterator[bytes]


class FocusService:
    """Reads closed hours. Each page is a transaction of its own: a slow reader holds none open."""

    def __init__(self, context: ServiceContext, *, page_records: int = _PAGE_RECORDS) -> None:
        self._database = context.database
        self._page_records = page_records

    async def export(
        self, principal: Principal, month: str | None, tenant_id: str | None, *, compressed: bool
    ) -> FocusExport:
        """`month` None: the present one. `compressed`: with gzip.

        Raises InvalidRequest, and while its content is read DatabaseUnavailable.
        """
        within = tenant_of(principal, tenant_id)
        if month is None:
            month = await self._present_month(principal)
        try:
            period = month_period(month)
        except ValueError:
            raise InvalidRequest(errors=[FieldError("#/query/month", "must be a month such as 2026-11")]) from None
        pages = self._pages(principal, period, within)
        first = await anext(pages)
        return FocusExport(month, _compressed(first, pages) if compressed else _joined(first, pages))

    async def _present_month(self, principal: Principal) -> str:
        async with self._database.transaction(principal.tenant_id, read_only=True) as connection:
            now: datetime = (await connection.execute(costs.PROGRESS)).one().now
        return f"{now.astimezone(UTC):%Y-%m}"

    async def _pages(
        self, principal: Principal, period: tuple[datetime, datetime], within: str | None
    ) -> AsyncIterator[bytes]:
        header = ",".join(COLUMNS).encode() + b"\n"
        after = FocusPosition(period[0])
        while True:
            sql, arguments = statements.page(period, after, within=within, limit=self._page_records)
            async with self._database.transaction(principal.tenant_id, read_only=True) as connection:
                content = await copy_csv(connection, sql, arguments)
            if header or content:
                yield header + content
            if not content:
                return
            header, after = b"", _last(content)


def _last(content: bytes) -> FocusPosition:
    """The record of the last row. No value contains a line break."""
    line = content[content.rfind(b"\n", 0, -1) + 1 :].decode()
    (row,) = csv.reader([line])
    return FocusPosition(datetime.fromisoformat(row[_START]), row[_ATTEMPT], int(row[_REVISION]))


async def _joined(first: bytes, pages: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
    yield first
    async for content in pages:
        yield content


async def _compressed(first: bytes, pages: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
    """In a thread: compressing a page takes longer than other requests should wait."""
    packer = zlib.compressobj(_FAST, wbits=_GZIP)
    yield await asyncio.to_thread(packer.compress, first)
    async for content in pages:
        yield await asyncio.to_thread(packer.compress, content)
    yield packer.flush()
