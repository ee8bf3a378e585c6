r"""Tags in Azure's form, kept inside what Azure accepts.

Limits (Azure docs, "Use tags to organize your Azure resources"): 50 tags a resource, 256 characters a value, none of
`<>%&\?/` in a name; names that differ only in case are the same. 128 characters a name hold for every kind of resource.
"""

import re
from collections.abc import Mapping

from app.domain.tags import LABEL_PREFIX, NAME
from workers.providers.types import LaunchSpec

TOKEN = "gpulease-token"  # noqa: S105  the name of a tag
"""The launch token in full: the name of a VM holds a part of it. It proves nothing: a copy of the tags has it too."""

_NOT_IN_KEY = re.compile(r"[<>%&\\?/\x00-\x1f\x7f]")
_NOT_IN_VALUE = re.compile(r"[\x00-\x1f\x7f]")
_MOST_TAGS = 50
_LONGEST_KEY = 128
_LONGEST_VALUE = 256


def of(spec: LaunchSpec) -> dict[str, str]:
    """Name, owner, token and the tenant's labels under their prefix; what Azure refuses in a label becomes `_`.

    Of labels that differ only in case the last one stays.
    """
    ours = {NAME: _value(spec.name), **spec.owner.as_tags(), TOKEN: spec.token}
    labels: dict[str, tuple[str, str]] = {}
    for label, value in sorted(spec.labels.items()):
        key = _NOT_IN_KEY.sub("_", LABEL_PREFIX + label)[:_LONGEST_KEY]
        labels[key.lower()] = (key, _value(value))
    room = _MOST_TAGS - len(ours) - 1  # one more is for the hash of the parameters
    return dict(list(labels.values())[:room]) | ours


def _value(text: str) -> str:
    return _NOT_IN_VALUE.sub("_", text)[:_LONGEST_VALUE]


def read(found: Mapping[str, str] | None) -> dict[str, str]:
    """As Azure gives them; None (no tags) is empty."""
    return dict(found or {})
