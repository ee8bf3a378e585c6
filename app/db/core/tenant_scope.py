"""Tenant isolation in the application, in addition to row-level security: whose rows a statement may access.

The two mechanisms are independent. A statement of the API names its tenant, although the database would hide the rows
of other tenants anyway. A wrong policy, role or setting therefore exposes nothing.
"""

from sqlalchemy import ColumnElement, Text, bindparam, literal_column, or_, true

TENANT = "gpulease_tenant"
"""The parameter of statements that are compiled once: the requesting tenant, or EVERY_TENANT."""

EVERY_TENANT = "*"

_ASKING = bindparam(TENANT, type_=Text)


def asking(column: ColumnElement[str]) -> ColumnElement[bool]:
    """Rows of the tenant in the parameter TENANT."""
    return or_(column == _ASKING, literal_column(f"'{EVERY_TENANT}'") == _ASKING)


def only(column: ColumnElement[str]) -> ColumnElement[bool]:
    """Rows of the tenant in the parameter TENANT, which is one: unlike `asking`, it always lets an index apply."""
    return column == _ASKING


def owned(column: ColumnElement[str], within: str | None) -> ColumnElement[bool]:
    """Like `asking`, for a statement that is built at run time. `within` None: rows of every tenant, for operators."""
    return true() if within is None else column == within


def parameter(within: str | None) -> dict[str, str]:
    """The value of TENANT."""
    return {TENANT: within or EVERY_TENANT}
