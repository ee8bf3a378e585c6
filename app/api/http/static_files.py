"""Files that the API serves as they are, each with an ETag and a Content-Security-Policy."""

import hashlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from importlib.resources.abc import Traversable
from types import MappingProxyType

from fastapi import Request, Response

from app.api.http.etags import not_modified
from app.services.errors import ResourceNotFound

_TYPES = MappingProxyType(
    {
        "css": "text/css; charset=utf-8",
        "html": "text/html; charset=utf-8",
        "js": "text/javascript; charset=utf-8",
        "svg": "image/svg+xml",
    }
)


@dataclass(frozen=True, slots=True)
class StaticFile:
    """A file and its response headers."""

    content: bytes
    media_type: str
    etag: str


def read_files(folder: Traversable) -> Mapping[str, StaticFile]:
    """Files by path below `folder`. Files of other types are left out."""
    return MappingProxyType(dict(_below(folder, "")))


def serve_file(request: Request, files: Mapping[str, StaticFile], path: str, policy: str) -> Response:
    """The file, or 304. Raises ResourceNotFound."""
    file = files.get(path)
    if file is None:
        raise ResourceNotFound
    headers = {"ETag": file.etag, "Cache-Control": "no-cache", "Content-Security-Policy": policy}
    same = not_modified(request, file.etag)
    if same is not None:
        same.headers.update(headers)
        return same
    return Response(file.content, media_type=file.media_type, headers=headers)


def _below(folder: Traversable, prefix: str) -> Iterator[tuple[str, StaticFile]]:
    for entry in folder.iterdir():
        if entry.is_dir():
            yield from _below(entry, f"{prefix}{entry.name}/")
        elif (media_type := _TYPES.get(entry.name.rpartition(".")[2])) is not None:
            content = entry.read_bytes()
            etag = f'"{hashlib.blake2b(content, digest_size=12).hexdigest()}"'
            yield prefix + entry.name, StaticFile(content, media_type, etag)
