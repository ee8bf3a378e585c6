"""Reads in one round trip, within one tenant.

A transaction costs three round trips: BEGIN with the tenant, the query, COMMIT. Here the query itself sets the tenant,
in a condition that mentions no table. PostgreSQL evaluates such a condition once, before it reads any row. Row-level
security reads the setting at the first row. If PostgreSQL ever reversed this order, the setting would be empty, and the
query would return no row. The setting ends with the statement's own implicit transaction.
"""

from sqlalchemy import bindparam, func, literal, select

from app.db.core.compiled import Compiled
from app.db.core.statements import AnySelect
from app.db.core.tenant_scope import TENANT


def within_tenant(statement: AnySelect) -> AnySelect:
    """`statement`, restricted to the tenant in its parameter TENANT."""
    setting = func.set_config("gpulease.tenant", bindparam(TENANT), literal(value=True))
    return statement.where(select(setting).scalar_subquery().is_not(None))


class Query(Compiled):
    """A SELECT for the most frequent reads: compiled at import, executed in one round trip within a tenant."""

    def __init__(self, statement: AnySelect) -> None:
        super().__init__(within_tenant(statement))
