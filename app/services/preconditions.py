"""Versions as ETags: what a caller believes a resource looks like."""

import hashlib
import re
from collections.abc import Iterable
from dataclasses import dataclass

from app.services.errors import BadHeader, FieldError, VersionConflict

_TAG = re.compile(r'"[\x21\x23-\x7e\x80-\xff]*"')
"""RFC 9110, entity-tag without its weak mark."""


def version_tag(resource_id: str, version: int) -> str:
    """The ETag of one resource."""
    return f'"{resource_id}.{version}"'


def list_tag(rows: Iterable[tuple[str, int]], *, also: str = "") -> str:
    """The ETag of a list: changes with any (id, version) in it. `also`: whatever else the answer depends on."""
    digest = hashlib.blake2b(also.encode(), digest_size=12)
    for resource_id, version in rows:
        digest.update(f"\n{resource_id}.{version}".encode())
    return f'"{digest.hexdigest()}"'


@dataclass(frozen=True, slots=True)
class IfMatch:
    """The If-Match header of a change. `tags` None: the caller does not care; `*` matches what exists."""

    tags: frozenset[str] | None = None

    def check(self, resource_id: str, version: int) -> None:
        """Raises VersionConflict. Call it in the transaction that changes the row, with the row locked."""
        if not self._allows(version_tag(resource_id, version)):
            raise VersionConflict(f"The current version is {version}.")

    def check_tag(self, tag: str) -> None:
        """The same for what has no version of its own but a tag. Raises VersionConflict."""
        if not self._allows(tag):
            raise VersionConflict

    def _allows(self, tag: str) -> bool:
        return self.tags is None or "*" in self.tags or tag in self.tags


def parse_required_tags(header: str | None) -> frozenset[str] | None:
    """As `parse_tags`, of an If-Match header. Raises BadHeader for anything but `*` or entity tags in quotes."""
    tags = parse_tags(header)
    if tags is not None and tags != {"*"} and not all(_TAG.fullmatch(tag) for tag in tags):
        detail = "must be * or the ETag of a GET with its double quotes"
        raise BadHeader(errors=[FieldError("#/header/If-Match", detail)])
    return tags


def parse_tags(header: str | None) -> frozenset[str] | None:
    """The entity tags of an If-Match or If-None-Match header, weak marks dropped. None when there is no header."""
    if header is None:
        return None
    return frozenset(part.strip().removeprefix("W/") for part in header.split(","))
