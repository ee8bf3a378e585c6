"""How a VM or disk is addressed: `ZONE:NAME:NUMBER`. The number is Google's and never used again; a name can be."""

import re
from typing import NamedTuple, Self

_ID = re.compile(r"([a-z0-9-]+):([a-z0-9-]+):([1-9][0-9]{0,19})")


class Id(NamedTuple):
    """The parts of an id."""

    zone: str
    name: str
    number: str

    @classmethod
    def parse(cls, text: str) -> Self | None:
        """None for what is no id of ours."""
        match = _ID.fullmatch(text)
        return cls(*match.groups()) if match else None

    def __str__(self) -> str:
        return ":".join(self)


def region_of(zone: str) -> str:
    """Zones are named after their region: `us-central1-a`."""
    return zone.rpartition("-")[0]


def in_region(zone: str, region: str) -> bool:
    """Whether the zone is one of the region's."""
    return region_of(zone) == region


def last(link: str) -> str:
    """The name that a resource's link ends with."""
    return link.rpartition("/")[2]
