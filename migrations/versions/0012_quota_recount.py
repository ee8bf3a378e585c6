"""Counts quota anew from what leases hold: earlier versions could leave `used` different from the claims.

A lease of such a tenant could never end: giving back more than was counted violates a check. Processes of the version
before may still do this until they are replaced; the invariant "used equals the claims" reports it.

Revision: 0012
Follows: 0011
"""

from alembic import op

revision = "0012"
down_revision = "0011"
branch_labels = None
depends_on = None

RECOUNT = """
    UPDATE quota q SET used = coalesce(
        (SELECT sum(c.amount) FROM quota_claim c WHERE c.tenant_id = q.tenant_id AND c.resource = q.resource), 0)
    WHERE q.used <> coalesce(
        (SELECT sum(c.amount) FROM quota_claim c WHERE c.tenant_id = q.tenant_id AND c.resource = q.resource), 0)
"""


def upgrade() -> None:
    # every writer locks its rows of quota before it writes claims: once this has the tables, both are as committed
    op.execute("LOCK TABLE quota, quota_claim IN ACCESS EXCLUSIVE MODE")
    # the owner is not one of the roles that the policies name
    _force_policies("NO FORCE")
    op.execute(RECOUNT)
    _force_policies("FORCE")


def downgrade() -> None:
    """There is nothing to take back."""


def _force_policies(force: str) -> None:
    for table in ("quota", "quota_claim"):
        op.execute(f"ALTER TABLE {table} {force} ROW LEVEL SECURITY")
