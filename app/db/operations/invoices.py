"""Statements of the import of invoices. The report is in `app.db.operations.reconciliation`."""

from collections.abc import Mapping, Sequence
from typing import Any

from sqlalchemy import Insert, TextClause, and_, func, insert, select, text

from app.db.core.prepared import Bound
from app.db.core.sql import AnySelect
from app.db.schema.tables import invoice_import, invoice_line

LOCK = text("LOCK TABLE invoice_import IN SHARE ROW EXCLUSIVE MODE")
"""One import at a time: two imports of the same month would not see each other's lines."""

ADD_LINES = insert(invoice_line)
"""Executed with a list of lines."""


def with_hash(file_hash: bytes) -> AnySelect:
    """(imported_at, replaced_at) of an import."""
    columns = (invoice_import.c.imported_at, invoice_import.c.replaced_at)
    return select(*columns).where(invoice_import.c.file_hash == file_hash)


def add(values: Mapping[str, Any]) -> Insert:
    """Inserts an import."""
    return insert(invoice_import).values(**values)


_COVERAGE = text(
    """
    SELECT l.billing_account, l.import_id = :import_id AS is_new, count(*) AS charges, count(DISTINCT l.day) AS days
    FROM invoice_line l JOIN invoice_import i ON i.id = l.import_id
    WHERE i.provider = :provider AND i.month = :month AND l.billing_account = ANY (:accounts)
    GROUP BY 1, 2 ORDER BY 1
    """
)


def coverage(import_id: str, *, provider: str, month: Any, accounts: Sequence[str]) -> Bound[TextClause]:
    """(billing_account, is_new, charges, days) of an import, and of what it is about to replace."""
    values = {"import_id": import_id, "provider": provider, "month": month, "accounts": list(accounts)}
    return Bound(_COVERAGE, values)


_REPLACED = text(
    """
    WITH before AS (
        SELECT id FROM invoice_import
        WHERE provider = :provider AND month = :month AND replaced_at IS NULL AND id <> :import_id),
    removed AS (
        DELETE FROM invoice_line l USING before b
        WHERE l.import_id = b.id AND l.billing_account = ANY (:accounts) RETURNING l.import_id)
    UPDATE invoice_import i
    SET billing_accounts = i.billing_accounts - CAST(:accounts AS text[]),
        replaced_at = CASE WHEN i.billing_accounts - CAST(:accounts AS text[]) = '[]' THEN now() END
    FROM before b
    WHERE i.id = b.id AND jsonb_exists_any(i.billing_accounts, :accounts)
    RETURNING i.id
    """
)


def replace_earlier(import_id: str, *, provider: str, month: Any, accounts: Sequence[str]) -> Bound[TextClause]:
    """Deletes the lines that earlier files of these billing accounts have for the month.

    An import without a billing account left is marked as replaced. Its row stays, so that its file is not imported
    again. Returns the changed imports.
    """
    values = {"import_id": import_id, "provider": provider, "month": month, "accounts": list(accounts)}
    return Bound(_REPLACED, values)


_IN_METRIC = and_(
    invoice_import.c.replaced_at.is_(None),
    invoice_import.c.month >= text("date_trunc('month', now()) - interval '1 month'"),
)
UNLISTED_MONTHS = (
    select(invoice_import.c.month)
    .where(_IN_METRIC, invoice_import.c.unlisted_resources > 0)
    .group_by(invoice_import.c.month)
    .order_by(invoice_import.c.month)
)
"""(month) of those that `UNLISTED` counts something in."""

UNLISTED = select(func.coalesce(func.sum(invoice_import.c.unlisted_resources), 0).label("resources")).where(_IN_METRIC)
"""Resources of ours that are charged without a lease, in this month and the one before. See `reconciliation.count_unlisted`."""
