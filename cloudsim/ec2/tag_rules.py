"""What EC2 accepts as tags."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any

from cloudsim.ec2.errors import AwsError

KEY_CHARACTERS, VALUE_CHARACTERS, TAGS_PER_RESOURCE = 128, 256, 50
RUN_RESOURCE_TYPES = ("instance", "volume", "network-interface", "spot-instances-request")
_METADATA_KEY = re.compile(r"[0-9a-zA-Z\-_+=,.@:]{1,255}")
_METADATA_RESERVED = (".", "..", "_index")
_UNPRINTABLE = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\ufffe\uffff]")


def check_tags(tags: Mapping[str, str]) -> None:
    """Raises AwsError for tags that EC2 refuses."""
    if len(tags) > TAGS_PER_RESOURCE:
        raise AwsError("TagLimitExceeded", f"More than {TAGS_PER_RESOURCE} tags specified")
    for key, value in tags.items():
        _check_tag(key, value)


def _check_tag(key: str, value: str) -> None:
    if not 1 <= len(key) <= KEY_CHARACTERS:
        raise AwsError("InvalidParameterValue", f"Tag key must have between 1 and {KEY_CHARACTERS} characters")
    if len(value) > VALUE_CHARACTERS:
        raise AwsError(
            "InvalidParameterValue", f"Tag value exceeds the maximum length of {VALUE_CHARACTERS} characters"
        )
    if key.lower().startswith("aws:"):
        raise AwsError("InvalidParameterValue", "Tag keys starting with 'aws:' are reserved for internal use")
    if _UNPRINTABLE.search(key + value):
        raise AwsError("InvalidParameterValue", "Tags must not contain control characters")


def read_tags(raw: Iterable[Mapping[str, str]]) -> dict[str, str]:
    """A TagList as a dict. Raises AwsError for a key given twice and for tags that EC2 refuses."""
    pairs = [(tag.get("Key", ""), tag.get("Value", "")) for tag in raw]
    tags = dict(pairs)
    if len(tags) < len(pairs):
        raise AwsError("InvalidParameterValue", "Duplicate tag key specified")
    check_tags(tags)
    return tags


def specified_tags(specifications: Iterable[Mapping[str, Any]], *, spot: bool) -> dict[str, dict[str, str]]:
    """TagSpecifications of RunInstances: tags by resource type, empty where none are given."""
    tags: dict[str, dict[str, str]] = {kind: {} for kind in RUN_RESOURCE_TYPES}
    for specification in specifications:
        kind = specification.get("ResourceType", "")
        if kind not in tags or (kind == "spot-instances-request" and not spot):
            raise AwsError(
                "InvalidParameterValue", f"'{kind}' is not a valid taggable resource type for this operation."
            )
        tags[kind] = read_tags(specification.get("Tags", []))
    return tags


def check_metadata_keys(metadata: Mapping[str, Any], tags: Mapping[str, str]) -> None:
    """Tags that are to be readable in the VM need keys that fit into a URL."""
    if metadata.get("InstanceMetadataTags") != "enabled":
        return
    for key in tags:
        if not _METADATA_KEY.fullmatch(key) or key in _METADATA_RESERVED:
            raise AwsError(
                "InvalidParameterValue",
                f"'{key}' is not a valid tag key. Tag keys must match pattern ([0-9a-zA-Z\\\\-_+=,.@:]{{1,255}}), "
                "and must not be a reserved name ('.', '..', '_index')",
            )
