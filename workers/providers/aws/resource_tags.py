"""Tags in EC2's form, kept inside what EC2 accepts.

Limits (EC2 user guide, "Tag your Amazon EC2 resources"): 50 tags a resource, 128 characters a key, 256 a value.
Instance metadata serves a tag only when its key has no slash and no space; a key outside that fails the launch.
"""

import re
from collections.abc import Mapping
from typing import TYPE_CHECKING

from app.domain.tags import LABEL_PREFIX, NAME
from workers.providers.types import LaunchSpec

if TYPE_CHECKING:
    from mypy_boto3_ec2.type_defs import FilterTypeDef

_NOT_IN_KEY = re.compile(r"[^\w.:=+@-]", re.ASCII)
_NOT_IN_VALUE = re.compile(r"[^\w .:/=+@-]")
_MOST_TAGS = 50
_LONGEST_KEY = 128
_LONGEST_VALUE = 256


def of(spec: LaunchSpec) -> dict[str, str]:
    """Name, owner and the tenant's labels under their prefix; what EC2 refuses in a label becomes `_`."""
    labels = {_key(LABEL_PREFIX + key): _value(value) for key, value in sorted(spec.labels.items())}
    ours = {NAME: _value(spec.name), **spec.owner.as_tags()}
    room = _MOST_TAGS - len(ours)
    return dict(list(labels.items())[:room]) | ours


def _key(text: str) -> str:
    return _NOT_IN_KEY.sub("_", text)[:_LONGEST_KEY]


def _value(text: str) -> str:
    return _NOT_IN_VALUE.sub("_", text)[:_LONGEST_VALUE]


def to_list(tags: Mapping[str, str]) -> list[dict[str, str]]:
    """As EC2 takes them."""
    return [{"Key": key, "Value": value} for key, value in tags.items()]


def to_dict(tags: list[dict[str, str]] | None) -> dict[str, str]:
    """As EC2 gives them; None (no tags) is empty."""
    return {tag["Key"]: tag["Value"] for tag in tags or ()}


def tagged(key: str, *values: str) -> "FilterTypeDef":
    """A filter on one tag; at most 200 values."""
    return {"Name": f"tag:{key}", "Values": list(values)}
