"""Links and times as Google writes them, and what a link names."""

from __future__ import annotations

import base64
import hashlib
from datetime import UTC, datetime, timedelta, timezone

from cloudsim.gce.call import API

_PACIFIC = timezone(timedelta(hours=-8))


def zonal(project: str, zone: str, *parts: str) -> str:
    """`…/projects/P/zones/Z/…`."""
    return "/".join((API, "projects", project, "zones", zone, *parts))


def regional(project: str, region: str, *parts: str) -> str:
    """`…/projects/P/regions/R/…`."""
    return "/".join((API, "projects", project, "regions", region, *parts))


def everywhere(project: str, *parts: str) -> str:
    """`…/projects/P/global/…`."""
    return "/".join((API, "projects", project, "global", *parts))


def last(link: str) -> str:
    """The name at a link's end."""
    return link.rpartition("/")[2]


def rfc3339(moment: float) -> str:
    """A time as Google writes it, in its own time zone."""
    return datetime.fromtimestamp(moment, UTC).astimezone(_PACIFIC).isoformat(timespec="milliseconds")


def number(*of: str) -> str:
    """A 19-digit number that is always the same for the same thing."""
    digest = hashlib.sha256("/".join(of).encode()).digest()
    return str((int.from_bytes(digest[:8]) >> 2) | (1 << 60))


def fingerprint(of: object) -> str:
    """Changes when the thing does."""
    return base64.b64encode(hashlib.sha256(repr(of).encode()).digest()[:8]).decode()
