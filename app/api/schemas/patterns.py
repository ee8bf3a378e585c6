"""Regular expressions of request fields, each with the words that callers read instead of the expression."""

from dataclasses import dataclass
from types import MappingProxyType

from app.domain.volumes import PATH, PATH_RULE


@dataclass(frozen=True, slots=True)
class Pattern:
    """`rule` is the rest of a sentence that begins with the field's name."""

    regex: str
    rule: str


NAME = Pattern(
    r"^[A-Za-z0-9](?:[A-Za-z0-9 ._-]{0,61}[A-Za-z0-9])?$",
    "must have 1 to 63 letters, digits, spaces, dots, underscores and hyphens, with a letter or digit at both ends",
)
GPU_MODEL = Pattern(
    r"^[A-Za-z0-9][A-Za-z0-9 .:/_-]{0,59}$",
    "must have 1 to 60 letters, digits, spaces and . : / _ -, with a letter or digit at the beginning",
)
INSTANCE_TYPE = Pattern(
    r"^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$",
    "must have 1 to 64 letters, digits, dots, underscores and hyphens, with a letter or digit at the beginning",
)
REGION = Pattern(
    r"^[a-z0-9][a-z0-9-]{0,39}$",
    "must have 1 to 40 small letters, digits and hyphens, with a letter or digit at the beginning",
)
IMAGE = Pattern(
    r"^[a-z0-9][a-z0-9._-]{0,39}$",
    "must have 1 to 40 small letters, digits, dots, underscores and hyphens, with a letter or digit at the beginning",
)
IDEMPOTENCY_KEY = Pattern(r"^[\x21-\x7e]+$", "must have 1 to 255 printable ASCII characters without spaces")
QUOTA_RESOURCE = Pattern(
    r"^[a-z_]+(:[A-Za-z0-9._-]+)?$", "must be a resource such as gpus, gpus:A100, leases, spend_per_hour or volume_gib"
)
AUDIT_ACTION = Pattern(r"^[a-z_]+\.[a-z_]+$", "must be an action such as key.revoke")
MOUNT_PATH = Pattern(f"^{PATH.pattern}$", PATH_RULE)
MONTH = Pattern(r"^2[0-9]{3}-(0[1-9]|1[0-2])$", "must be a month such as 2026-11")

RULES = MappingProxyType(
    {
        pattern.regex: pattern.rule
        for pattern in (
            NAME,
            GPU_MODEL,
            INSTANCE_TYPE,
            REGION,
            IMAGE,
            IDEMPOTENCY_KEY,
            QUOTA_RESOURCE,
            AUDIT_ACTION,
            MOUNT_PATH,
            MONTH,
        )
    }
)
"""The rule by regular expression."""
