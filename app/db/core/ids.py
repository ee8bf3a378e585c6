"""New identifiers. UUIDv7 inside, so that ids sort by creation."""

import uuid_utils.compat as uuid_utils

from app.domain.ids import typeid


def new_id(prefix: str) -> str:
    """A fresh TypeID such as `lease_01k...`; 74 random bits, never the same twice."""
    return typeid(prefix, uuid_utils.uuid7())
