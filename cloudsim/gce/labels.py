"""What Google accepts as labels (Compute Engine guide, "Label resources": requirements for labels)."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from cloudsim.gce.errors import invalid

_KEY = re.compile(r"[a-z][a-z0-9_-]{0,62}")
_VALUE = re.compile(r"[a-z0-9_-]{0,63}")
_MOST = 64


def check(labels: Mapping[str, Any]) -> dict[str, str]:
    """The labels. Raises GceError invalid."""
    if len(labels) > _MOST:
        raise invalid("labels", f"At most {_MOST} labels are allowed.")
    for key, value in labels.items():
        if not _KEY.fullmatch(key):
            raise invalid("labels", f"Label key '{key}' violates format constraints.")
        if not isinstance(value, str) or not _VALUE.fullmatch(value):
            raise invalid("labels", f"Label value '{value}' violates format constraints.")
    return dict(labels)
