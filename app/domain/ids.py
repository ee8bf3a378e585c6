"""Identifiers: opaque TypeIDs (type prefix, underscore, UUIDv7 in base32), kept as text everywhere.

The database, the tags at the cloud, the logs and the API all hold the same text. No layer converts an id, so an id
can be searched for exactly as it was read.
"""

import re
from typing import NewType
from uuid import UUID

TenantId = NewType("TenantId", str)
KeyId = NewType("KeyId", str)
LeaseId = NewType("LeaseId", str)
AttemptId = NewType("AttemptId", str)
GroupId = NewType("GroupId", str)
BatchId = NewType("BatchId", str)

_ALPHABET = "0123456789abcdefghjkmnpqrstvwxyz"
_SUFFIX_LENGTH = 26
_SUFFIX = re.compile(r"[0-7][0-9a-hjkmnp-tv-z]{25}")


def typeid(prefix: str, value: UUID) -> str:
    """`prefix_` and the 26 base32 characters of a 128-bit value (TypeID specification 0.3)."""
    number = value.int
    digits = [_ALPHABET[(number >> shift) & 31] for shift in range(125, -1, -5)]
    return f"{prefix}_{''.join(digits)}"


def is_typeid(prefix: str, text: str) -> bool:
    """Whether `text` could be an id of this type. Does not check that the id exists."""
    head, _, suffix = text.rpartition("_")
    return head == prefix and len(suffix) == _SUFFIX_LENGTH and _SUFFIX.fullmatch(suffix) is not None
