"""Whose rows a statement may touch: the application's own wall between tenants, beside row-level security.

The two know nothing of each other: a statement of the API names its tenant although the database would hide the rest
anyway, so that a wrong policy, role or setting shows nobody anything.
"""

from sqlalchemy import ColumnElement, Text, bindparam, literal_column, or_, true

TENANT = "gpulease_tenant"
"""The parameter of statements that are compiled once: the tenant that asks, or EVERY_TENANT."""

EVERY_TENANT = "*"

_ASKING = bindparam(TENANT, type_=Text)


def asking(column: ColumnElement[str]) -> ColumnElement[bool]:
    """Rows of the tenant in the parameter TENANT."""
    return or_(column == _ASKING, literal_column(f"'{EVERY_TENANT}'") == _ASKING)


def owned(column: ColumnElement[str], within: str | None) -> ColumnElement[bool]:
    """The same for a statement that is put together at run time. `within` None: of every tenant, for operators."""
    return true() if within is None else column == within


def parameter(within: str | None) -> dict[str, str]:
    """The value of TENANT."""
    return {TENANT: within or EVERY_TENANT}
