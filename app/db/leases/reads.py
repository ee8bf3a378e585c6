"""The API's hottest statements about leases, compiled once. Reads are done in one round trip."""

from app.db.core.compiled import Compiled, Query
from app.db.leases import statements

ONE = Query(statements.READ)
"""Parameter: lease_id."""

ONE_WITH_SCRIPT = Query(statements.READ_WITH_SCRIPT)
"""Parameter: lease_id."""

CREATE = Compiled(statements.CREATE)
"""Writes; see leases.CREATE."""

VERSION = Query(statements.VERSION)
"""Parameter: lease_id."""
