"""The API's hottest statements about leases, compiled once. Reads are done in one round trip."""

from typing import Any

from sqlalchemy import Select, Text, cast

from app.db import leases
from app.db.compiled import Compiled
from app.db.reads import Query

_AS_TEXT = frozenset({"connection", "interruption", "labels", "placement", "reason", "request", "ssh_host_keys"})
"""Shown as they are stored: parsing them to write them again would cost more than all else about a row."""


def compiled(statement: Select[Any]) -> Query:
    """A query for the rows of `statement`, its JSON as text: objects, `request` and `connection` never empty."""
    columns = [cast(one, Text).label(one.name) if one.name in _AS_TEXT else one for one in statement.selected_columns]
    return Query(statement.with_only_columns(*columns, maintain_column_froms=True))


ONE = compiled(leases.READ)
"""Parameter: lease_id."""

ONE_WITH_SCRIPT = compiled(leases.READ_WITH_SCRIPT)
"""Parameter: lease_id."""

CREATE = Compiled(leases.CREATE)
"""Writes; see leases.CREATE."""

VERSION = Query(leases.VERSION)
"""Parameter: lease_id."""
