"""The API's hottest statements about leases, compiled once. Reads are done in one round trip."""

from app.db import leases
from app.db.core.compiled import Compiled
from app.db.core.reads import Query

ONE = Query(leases.READ)
"""Parameter: lease_id."""

ONE_WITH_SCRIPT = Query(leases.READ_WITH_SCRIPT)
"""Parameter: lease_id."""

CREATE = Compiled(leases.CREATE)
"""Writes; see leases.CREATE."""

VERSION = Query(leases.VERSION)
"""Parameter: lease_id."""
